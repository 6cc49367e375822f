// What /model says of one partition's model.

import { $, element, filling, put, putRows } from "./dom.js";
import { compact, loss, percent, plural, signed, sum, whole } from "./numbers.js";

const PARENTS = 12;
const CLASSES = 20;
const SPLINES = 20;
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
  drawParents(model);
  drawMixture(model);
  drawClasses(model.classes);
  drawSplines(model);
  const fill = model.fill;
  const share = fill.occupied / fill.slots;
  $("fill").setAttribute("role", "img");
  $("fill").setAttribute("aria-label", `${percent(share)} of the slots hold a monomial`);
  put("fill", filling(share));
  put("fill-more", `${whole(fill.occupied)} of ${whole(fill.slots)} slots (${percent(share)}); ${whole(fill.evicted)} evicted, ${whole(fill.refused)} refused since the model's start`);
  const most = Math.max(1, ...model.degrees.map((each) => each.monomials));
  put("degrees", element("div", { class: "rows" }, ...model.degrees.flatMap((each) => [
    element("span", {}, DEGREES[each.degree] ?? `of degree ${each.degree}`),
    element("span", { class: "track", "aria-hidden": "true" }, filling(each.monomials / most)),
    element("span", { class: "number" }, `${compact(each.monomials)}, ${plural(each.parents, "parent")}`),
  ])));
  const gaps = model.lineage.gaps.map((gap) => `${gap.start} to ${gap.stop}`).join(", ");
  const facts = {
    "learned up to offset": whole(model.at),
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
  for (const id of ["monomials", "found-more", "parents-more", "fill", "fill-more", "degrees", "model-facts", "mixture-more", "classes-more", "splines-more"]) put(id);
  for (const id of ["classes-panel", "splines-panel"]) $(id).hidden = true;
  for (const id of ["parents", "predictors", "classes", "splines"]) document.querySelector(`#${id} tbody`).replaceChildren();
}

export function drawMonomials(model, list) {
  const shown = model[list];
  const most = Math.max(...shown.map((each) => each.salience), 1e-12);
  const names = model.named < 0.9995 ? ` ${percent(model.named)} of their features have been seen by name so far.` : "";
  const kinds = list === "products" ? "products of features" : "monomials";
  put("found-more", shown.length
    ? `The ${shown.length} ${kinds} that can move a prediction most: weight times the largest value seen. Parents are multiplied with every feature beside them.${names}`
    : "No products yet: the first epoch's end makes the heaviest features parents, and their products appear with the next examples.");
  put("monomials", ...shown.map((each) => {
    const label = element("span", {}, named(each.name));
    if (each.parent) label.append(element("span", { class: "badge" }, "parent"));
    const bar = filling(each.salience / most / 2, each.weight < 0 ? "down" : "up");
    return element("li", {}, label, element("span", { class: "weight", "aria-hidden": "true" }, bar),
      element("span", { class: "value", title: `salience ${each.salience.toPrecision(4)}, linear weight ${each.linear_weight.toPrecision(4)}` }, signed(each.weight)));
  }));
}

const LOSSES = { published: "loss", linear: "linear_loss", apple: "apple_loss" };

/** What is published, and the predictors that it is mixed of; or linear, which learns beside it. */
function drawMixture(model) {
  const { weights, shares } = model.mixture;
  const mixed = Object.keys(weights);
  const classes = model.options.loss === "softmax";
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
    ? `A mixture of six predictors; a weight is how much of a predictor's score is in it. Trusted so far: ${trust}.`
    : "One predictor's own score: nothing is mixed. Linear learns beside it, to compare.");
}

/** The most frequent classes: how often each has come, and how often another one was predicted for it. */
function drawClasses(classes) {
  const shown = classes.slice(0, CLASSES);
  $("classes-panel").hidden = !shown.length;
  putRows("#classes", shown.map((each) => element("tr", {}, element("th", { scope: "row" }, String(each.number)),
    ...[each.recent.share === null ? "-" : percent(each.recent.share), loss(each.recent.error), compact(each.start.weight), loss(each.start.error)]
      .map((text) => element("td", { class: "number" }, text)))));
  put("classes-more", `The error of a class is the share of its examples for which another was predicted.${classes.length > shown.length ? ` Shown are the ${shown.length} most frequent.` : ""}`);
}

/** The points of numbers' splines; those first that can move a prediction most. */
function drawSplines(model) {
  const shown = model.splines.slice(0, SPLINES);
  $("splines-panel").hidden = !shown.length;
  putRows("#splines", shown.map((each) => element("tr", {}, element("td", { class: "name" }, each.name),
    element("td", { class: "number" }, each.salience.toPrecision(3)),
    element("td", { class: "name" }, each.points.map(ofPoint).join(" | ")),
    element("td", {}, each.dense ? "the centered value; 0 where it is absent" : "the value"))));
  put("splines-more", `${plural(model.numbers, "number")} learned by how near they are to points${model.numbers > shown.length ? ", of which these can move a prediction most" : ""}.`);
}

function ofPoint(point) {
  return String(Number(point.toPrecision(4))).replace("-", "\u2212");
}

function drawParents(model) {
  const rows = model.parents.slice(0, PARENTS).map((each) => element("tr", {}, element("td", { class: "name" }, each.name),
    element("td", { class: "number" }, compact(each.children)), element("td", { class: "number" }, each.gain.toPrecision(3)), element("td", { class: "name" }, each.heaviest || "-")));
  const none = element("tr", {}, element("td", { colspan: "4", class: "quiet" }, "No parents yet: they are chosen when an epoch ends."));
  putRows("#parents", rows.length ? rows : [none]);
  const all = sum(model.degrees.map((each) => each.parents));
  put("parents-more", all ? `The gain is what the children add to a score at their largest, in sum. ${whole(model.parents_examined)} of ${plural(all, "parent")} examined.` : "");
}
