// What /model says of one partition's model.

import { $, element, filling, put, putRows, setRows } from "./dom.js";
import { compact, loss, percent, plural, signed, whole } from "./numbers.js";

const ROWS = 20; // of a table
const DEGREES = ["", "features", "pairs", "triples"];

function named(name) {
  const shown = element("span", { class: "name" });
  name.split(" \u00d7 ").forEach((factor, index) => {
    if (index) shown.append(element("span", { class: "times" }, " \u00d7 "));
    shown.append(factor);
  });
  return shown;
}

/** Draw everything that /model says; `list` is which monomials are listed, products or top. */
export function drawModel(model, list) {
  drawMonomials(model, list);
  drawMixture(model);
  drawClasses(model.classes);
  put("tables", ...model.tables.map(panelOf));
  const { table_slots: slots, table_occupied_slots: occupied, table_evictions: evicted, table_refusals: refused } = model.gauges;
  const share = occupied / slots;
  $("fill").setAttribute("role", "img");
  $("fill").setAttribute("aria-label", `${percent(share)} of the slots hold a monomial`);
  put("fill", filling(share));
  const lost = [[evicted, "evicted"], [refused, "refused"]].filter(([count]) => count !== undefined).map(([count, what]) => `${whole(count)} ${what}`);
  put("fill-more", `${whole(occupied)} of ${whole(slots)} slots (${percent(share)})${lost.length ? `; ${lost.join(", ")} since the model's start` : ""}`);
  const most = Math.max(1, ...model.degrees.map((each) => each.monomials));
  put("degrees", element("div", { class: "rows" }, ...model.degrees.flatMap((each) => [
    element("span", {}, DEGREES[each.degree] ?? `of degree ${each.degree}`),
    element("span", { class: "track", "aria-hidden": "true" }, filling(each.monomials / most)),
    element("span", { class: "number" }, `${compact(each.monomials)}${each.parents ? `, ${plural(each.parents, "parent")}` : ""}`),
  ])));
  const gaps = model.lineage.gaps.map((gap) => `${gap.start} to ${gap.stop}`).join(", ");
  const facts = {
    "learned up to offset": whole(model.at),
    "kind": [model.kind, ...model.notes].join("; "),
    "model": model.lineage.model,
    "its first offset": whole(model.lineage.start),
    "gaps": gaps || "none",
    "skipped records": model.lineage.skips.join(", ") || "none",
    "digest, last epoch's end": model.digest || "no epoch has ended",
    "newest snapshot": model.snapshot === null ? "none yet" : `at offset ${whole(model.snapshot.at)}, ${model.snapshot.digest.slice(0, 8)}`,
  };
  put("model-facts", ...Object.entries(facts).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

/** Show nothing: what is shown must never be another partition's. */
export function forgetModel() {
  for (const id of ["monomials", "found-more", "tables", "fill", "fill-more", "degrees", "model-facts", "mixture-more", "classes-more"]) put(id);
  $("classes-panel").hidden = true;
  for (const id of ["predictors", "classes"]) document.querySelector(`#${id} tbody`).replaceChildren();
}

export function drawMonomials(model, list) {
  const shown = model[list];
  const most = Math.max(...shown.map((each) => each.salience), 1e-12);
  const names = model.named < 0.9995 ? ` ${percent(model.named)} of their features have been seen by name so far.` : "";
  const kinds = list === "products" ? "products of features" : "monomials";
  put("found-more", shown.length
    ? `The ${shown.length} ${kinds} that can move a prediction most, and by how much: weight times the largest value seen.${names}`
    : `No ${kinds} yet: most are found when epochs end.`);
  put("monomials", ...shown.map((each) => {
    const label = element("span", {}, named(each.name));
    if (each.mark) label.append(element("span", { class: "badge" }, each.mark));
    const bar = filling(each.salience / most / 2, each.weight < 0 ? "down" : "up");
    return element("li", {}, label, element("span", { class: "weight", "aria-hidden": "true" }, bar),
      element("span", { class: "value", title: Object.entries(each.weights).map(([name, weight]) => `${name} weight ${weight.toPrecision(4)}`).join(", ") }, signed(each.weight < 0 ? -each.salience : each.salience)));
  }));
}

const LOSSES = { published: "loss", linear: "linear_loss", expanded: "expanded_loss" };

/** What is published, and the predictors that it is mixed of; or linear, which learns beside it. */
function drawMixture(model) {
  const { weights, shares } = model.mixture;
  const mixed = Object.keys(weights);
  const classes = model.options.classes > 0;
  const heads = document.querySelector("#predictors").tHead.rows[0].cells;
  heads[4].textContent = classes ? "recent error" : "recent AUC";
  heads[5].textContent = classes ? "error since the start" : "calibration error";
  const rows = ["published", ...(mixed.length ? mixed : ["linear"])].map((name) => {
    const quality = model.quality.recent[name];
    const mean = (span) => (name in LOSSES ? loss(model.losses[span][LOSSES[name]]) : "-");
    const cells = [
      name in weights ? signed(weights[name]) : "-", mean("recent"), mean("start"),
      ...(classes ? [loss(quality?.error), loss(model.quality.start[name]?.error)] : [loss(quality?.auc), loss(quality?.calibration_error)]),
    ].map((text) => element("td", { class: "number" }, text));
    return element("tr", {}, element("th", { scope: "row" }, name.replace("_", " ")), ...cells);
  });
  putRows("#predictors", rows);
  const trust = Object.entries(shares).map(([name, share]) => `${name} ${percent(share)}`).join(", ");
  put("mixture-more", mixed.length
    ? `A mixture of ${mixed.length} predictors; a weight is how much of a predictor's score is in it. Trusted so far: ${trust}.`
    : "One predictor's own score: nothing is mixed. Linear learns beside it, to compare.");
}

/** The most frequent classes: how often each has come, and how often another one was predicted for it. */
function drawClasses(classes) {
  const shown = classes.slice(0, ROWS);
  $("classes-panel").hidden = !shown.length;
  putRows("#classes", shown.map((each) => element("tr", {}, element("th", { scope: "row" }, String(each.number)),
    ...[each.recent.share === null ? "-" : percent(each.recent.share), loss(each.recent.error), compact(each.start.weight), loss(each.start.error)]
      .map((text) => element("td", { class: "number" }, text)))));
  put("classes-more", `The error of a class is the share of its examples for which another was predicted.${classes.length > shown.length ? ` Shown are the ${shown.length} most frequent.` : ""}`);
}

/** A panel with a table of the learner's own. */
function panelOf(table, index) {
  const id = `table-${index}`;
  const heads = table.columns.map((column, at) => element("th", { scope: "col", class: typeof table.rows[0]?.[at] === "number" ? "number" : null }, column));
  const shown = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody"));
  setRows(shown, table.rows.slice(0, ROWS).map((row) => element("tr", {}, ...row.map(cellOf))));
  return element("section", { class: "panel", "aria-labelledby": id }, element("h2", { id }, table.title),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": id }, shown), element("p", { class: "quiet" }, table.note));
}

function cellOf(cell) {
  if (typeof cell === "number") return element("td", { class: "number" }, Number.isInteger(cell) ? compact(cell) : cell.toPrecision(3));
  return element("td", { class: "name" }, (Array.isArray(cell) ? cell.map(ofPoint).join(" | ") : cell) || "-");
}

function ofPoint(point) {
  return String(Number(point.toPrecision(4))).replace("-", "\u2212");
}
