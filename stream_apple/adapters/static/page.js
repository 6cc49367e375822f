// The status page: asks the worker for /status every second and for /model every five, and draws what it says.

import { LineChart, clock, element, filling } from "./charts.js";

const STATUS_MS = 1000;
const MODEL_MS = 5000;
const STALE_MS = 5000;
const TIMEOUT_MS = 4000;
const POINTS = 1200; // kept of each partition since the page was opened
const TOP = 24;
const PARENTS = 12;
const DEGREES = ["", "features", "pairs", "triples"];
const CURVES = [
  { kind: "constant", name: "best constant", recent: 5, whole: 8 },
  { kind: "linear", name: "linear", recent: 4, whole: 7 },
  { kind: "apple", name: "apple", recent: 3, whole: 6 },
]; // in the order in which they are drawn; the numbers are places in a point of the history

const $ = (id) => document.getElementById(id);
const put = (id, ...content) => $(id).replaceChildren(...content);

const histories = new Map(); // partition -> [[ms, examples, epoch, recent, linear, constant, whole, ...]]
let status = null;
let model = null;
let chosen = null;
let picked = false;
let span = "recent";
let list = "products";
let heardAt = null;
let problem = "";
let worker = null; // when it was started: another time is another worker
let previous = null;

// Numbers as people read them.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const whole = (value) => (value === null || value === undefined ? "-" : grouped.format(value));
const compact = (value) => (value === null || value === undefined ? "-" : Math.abs(value) < 10000 ? grouped.format(value) : short.format(value));
const loss = (value) => (value === null || value === undefined ? "-" : value.toFixed(4));
const percent = (share) => `${(100 * share).toFixed(Math.abs(share) < 0.1 ? 1 : 0)}%`;
const signed = (value) => `${value < 0 ? "\u2212" : "+"}${Math.abs(value).toPrecision(3)}`;
const plural = (count, word) => `${whole(count)} ${word}${count === 1 ? "" : "s"}`;

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
const total = (facts) => sum(Object.values(facts));

// Asking.

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!answer.ok) throw new Error(`${path.split("?")[0]}: the worker answered ${answer.status}`);
  return answer.json();
}

async function askStatus() {
  const newest = Math.max(0, ...[...histories.values()].map((points) => points.at(-1)?.[0] ?? 0));
  try {
    const found = await ask(`status?since=${newest}`);
    if (worker !== null && found.began_ms !== worker) {
      previous = null;
      histories.clear(); // a new process: its history starts anew, and this answer may lack its beginning
    }
    worker = found.began_ms;
    heardAt = Date.now();
    problem = "";
    remember(found);
    previous = status;
    status = found;
    drawStatus();
  } catch (error) {
    problem = error.name === "TimeoutError" ? "it does not answer" : error.message;
  }
  drawState();
}

function remember(found) {
  for (const [partition, points] of Object.entries(found.history)) {
    const known = histories.get(partition) ?? [];
    const last = known.at(-1)?.[0] ?? 0;
    known.push(...points.filter(([at]) => at > last));
    histories.set(partition, known.length > POINTS ? known.filter((_, index) => index % 2 === 0 || index > known.length - 60) : known);
  }
  // Until the reader chooses, the first one that has learned something is shown.
  const numbers = found.partitions.map((part) => part.partition);
  const busy = found.partitions.find((part) => part.learned_examples > 0);
  if (chosen === null || !numbers.includes(chosen) || (!picked && !histories.get(String(chosen))?.at(-1)?.[1])) {
    chosen = busy?.partition ?? numbers[0] ?? null;
  }
}

async function askModel() {
  if (chosen === null) return;
  const asked = chosen;
  try {
    const found = await ask(`model?partition=${asked}&top=${TOP}`);
    if (asked !== chosen) return;
    model = found;
    drawModel();
  } catch (error) {
    if (model === null) put("found-more", `There is nothing to show yet: ${error.message}.`);
  }
}

function every(milliseconds, what) {
  const turn = async () => {
    if (!document.hidden) await what();
    setTimeout(turn, milliseconds);
  };
  turn();
}

// Drawing what /status says.

function drawState() {
  const silent = heardAt === null ? Infinity : Date.now() - heardAt;
  const gone = problem !== "" && (silent > STALE_MS || heardAt === null);
  document.body.classList.toggle("stale", gone);
  $("gone").hidden = !gone;
  if (gone) {
    const since = heardAt === null ? "" : ` What you see is from ${clock(heardAt)}, ${duration(silent / 1000)} ago.`;
    // Only a change is announced, else a screen reader would speak every second.
    const text = `The worker does not answer.${since}`;
    if ($("gone").dataset.shown !== problem) {
      $("gone").dataset.shown = problem;
      $("gone").title = problem;
    }
    put("gone", text);
    drawPill("bad", "no answer");
  } else if (status !== null) {
    $("gone").dataset.shown = "";
    const waiting = status.ready.waiting_for;
    if (status.live.status === "stuck") drawPill("bad", "stuck");
    else if (waiting.length) drawPill("warn", `waiting for ${waiting.join(", ")}`);
    else if (status.brokers_reachable === 0) drawPill("bad", "no broker answers");
    else drawPill("good", status.partitions.length ? "live" : "ready, without a partition");
  }
}

function drawPill(kind, text) {
  $("state").className = `state ${kind}`;
  if ($("state-text").textContent !== text) put("state-text", text);
}

function drawStatus() {
  const about = status.about;
  document.title = `${about.worker} - stream_apple`;
  put("about", `worker ${about.worker} of group ${about.group}, topic ${about.topic}: ${about.method}, ${about.loss} loss`);
  put("version", `stream_apple ${about.version}, model format ${about.model_format}, Python ${about.python}; up for ${duration((status.at_ms - status.began_ms) / 1000)}`);
  drawVerdicts();
  drawChoice();
  drawLoss();
  drawPartitions();
  drawBudget();
  drawDeadLetters();
  drawConfig();
}

/** The mean over partitions, by examples. */
function mean(name) {
  const parts = status.partitions.filter((part) => part.losses.recent?.[name] !== null && part.losses.recent !== undefined);
  const weight = sum(parts.map((part) => part.learned_examples));
  return weight ? sum(parts.map((part) => part.losses.recent[name] * part.learned_examples)) / weight : null;
}

function drawVerdicts() {
  const parts = status.partitions;
  const [apple, linear] = [mean("progressive_loss"), mean("linear_progressive_loss")];
  figure("v-loss", loss(apple), "recent loss", "");
  const gain = linear > 0 ? 1 - apple / linear : 0;
  const beside = gain >= 0 ? "below" : "above";
  put("v-loss-more", apple === null ? "no labelled example yet" : `${percent(Math.abs(gain))} ${beside} linear (${loss(linear)}); best constant ${loss(mean("best_constant_loss"))}`);

  const records = sum(parts.map((part) => part.lag_records));
  const seconds = Math.max(0, ...parts.map((part) => part.lag_seconds ?? 0));
  figure("v-lag", compact(records), records === 1 ? "record behind" : "records behind", "");
  const rate = perSecond();
  const speed = rate === null ? "" : `${compact(rate)} records a second`;
  put("v-lag-more", [speed, records > 0 ? `event time ${duration(seconds)} behind` : "all that has come is answered"].filter(Boolean).join("; "));

  const reasons = Object.entries(status.dead_letters.by_reason).sort((a, b) => b[1] - a[1]);
  const dead = sum(reasons.map(([, count]) => count));
  const gaps = sum(parts.map((part) => part.gap_records));
  figure("v-dead", compact(dead), dead === 1 ? "dead letter" : "dead letters", dead || gaps ? "warn" : "good");
  const aborted = status.transactions.aborted ?? 0;
  const more = reasons.slice(0, 3).map(([reason, count]) => `${reason} ${whole(count)}`);
  if (gaps) more.push(`${whole(gaps)} offsets left out in accepted gaps`);
  if (aborted) more.push(plural(aborted, "aborted transaction"));
  put("v-dead-more", more.join(", ") || "every record was used");

  const parents = sum(parts.map((part) => total(part.parents) - (part.parents["0"] ?? 0)));
  figure("v-grow", whole(parents), parents === 1 ? "parent" : "parents", "");
  const features = parts.map((part) => part.features_per_example).filter((value) => value !== null && value !== undefined);
  const ends = parts.filter((part) => part.epoch_end_timestamp_seconds).map((part) => part.epoch_end_timestamp_seconds - part.watermark_timestamp_seconds);
  const notes = features.length ? [`${(sum(features) / features.length).toFixed(1)} features an example`] : [];
  if (ends.length) notes.push(`the epoch ends in ${duration(Math.max(0, Math.min(...ends)))} of event time`);
  put("v-grow-more", notes.join("; ") || "no epoch has ended yet");
}

function figure(id, text, unit, kind) {
  $(id).className = `figure ${kind}`;
  put(id, text, " ", element("small", {}, unit));
}

function perSecond() {
  if (previous === null || status.at_ms <= previous.at_ms) return null;
  const processed = (facts) => sum(facts.partitions.map((part) => total(part.examples)));
  return Math.max(0, (processed(status) - processed(previous)) * 1000 / (status.at_ms - previous.at_ms));
}

function drawChoice() {
  const numbers = status.partitions.map((part) => String(part.partition));
  $("partition-choice").hidden = numbers.length < 2;
  const select = $("partition");
  if ([...select.options].map((each) => each.value).join() !== numbers.join()) {
    select.replaceChildren(...numbers.map((number) => element("option", { value: number }, number)));
  }
  if (chosen !== null) select.value = String(chosen);
}

const chart = new LineChart($("loss-chart"));

function drawLoss() {
  const points = histories.get(String(chosen)) ?? [];
  const series = CURVES.map(({ kind, name, ...places }) => ({
    kind, name, points: points.filter((point) => point[places[span]] !== null).map((point) => [point[0], point[places[span]]]),
  }));
  const marks = [];
  for (let index = 1; index < points.length; index += 1) {
    if (points[index][2] !== points[index - 1][2] && points[index - 1][2] >= 0) marks.push(points[index][0]);
  }
  const now = series.map((each) => `${each.name} ${each.points.length ? each.points.at(-1)[1].toFixed(4) : "unknown"}`).reverse();
  chart.draw({ series, marks, label: `Progressive loss over time. Now: ${now.join(", ")}. Arrow keys move along the curves.` });
  put("loss-legend", ...[...series].reverse().map((each) => element("li", {},
    element("span", { class: `key k-${each.kind}`, "aria-hidden": "true" }), `${each.name} `,
    element("b", {}, each.points.length ? loss(each.points.at(-1)[1]) : "-"))));
}

function drawPartitions() {
  const rows = status.partitions.map((part) => {
    const recent = part.losses.recent ?? {};
    const left = part.recovery_records_left ? `, ${compact(part.recovery_records_left)} records to go` : "";
    const used = part.table_slots ? percent(part.table_occupied_slots / part.table_slots) : "-";
    const cells = [
      compact(part.lag_records), compact(part.learned_examples), loss(recent.progressive_loss), loss(recent.linear_progressive_loss),
      loss(recent.best_constant_loss), part.features_per_example?.toFixed(1) ?? "-", whole(total(part.parents) - (part.parents["0"] ?? 0)), used,
    ].map((text) => element("td", { class: "number" }, text));
    const digest = part.digest === null ? "-" : element("code", { title: `${part.digest.digest}, when epoch ${part.digest.epoch} had ended` }, part.digest.digest.slice(0, 8));
    return element("tr", {}, element("th", { scope: "row", class: "number" }, String(part.partition)),
      element("td", {}, element("span", { class: `tag ${part.state}` }, part.state), left), ...cells, element("td", {}, digest));
  });
  const none = element("tr", {}, element("td", { colspan: "11", class: "quiet" }, "This worker has no partition at the moment."));
  document.querySelector("#partitions tbody").replaceChildren(...(rows.length ? rows : [none]));
}

// The colours of the loop's phases, by group: more than eight can't be told apart.
const PHASES = [
  ["waiting for records", ["fetch"], "idle"],
  ["decoding", ["decode"], "f1"],
  ["learning", ["learn"], "f0"],
  ["growing", ["grow"], "f6"],
  ["encoding and sending", ["encode", "send"], "f2"],
  ["committing", ["commit"], "f3"],
  ["snapshots", ["snapshot", "restore"], "f4"],
  ["rebalances", ["rebalance"], "f5"],
];

const budgets = []; // [ms, seconds by phase] of the last minute

function drawBudget() {
  const last = budgets.at(-1);
  if (last && status.at_ms < last[0]) budgets.length = 0;
  budgets.push([status.at_ms, status.loop_seconds]);
  while (budgets.length > 2 && budgets[0][0] < status.at_ms - 60000) budgets.shift();
  const first = budgets[0][1];
  const lately = budgets.length > 5 && total(status.loop_seconds) - total(first) > 1;
  const spent = Object.fromEntries(Object.entries(status.loop_seconds).map(([phase, seconds]) => [phase, seconds - (lately ? first[phase] ?? 0 : 0)]));
  const all = total(spent) || 1;
  const known = new Set(PHASES.flatMap(([, phases]) => phases));
  const rest = Object.keys(spent).filter((phase) => !known.has(phase));
  const shares = [...PHASES, ["other", rest, "f7"]].map(([name, phases, kind]) => [name, sum(phases.map((phase) => spent[phase])) / all, kind]).filter(([, share]) => share >= 0.0005);
  const bar = element("div", { class: "stack", role: "img", "aria-label": shares.map(([name, share]) => `${name} ${percent(share)}`).join(", ") },
    ...shares.map(([name, share, kind]) => { const part = filling(share, kind); part.title = `${name} ${percent(share)}`; return part; }));
  const legend = element("ul", { class: "legend" }, ...shares.map(([name, share, kind]) => element("li", {},
    element("span", { class: `key box ${kind}`, "aria-hidden": "true" }), `${name} `, element("b", {}, percent(share)))));
  put("budget", bar, legend);
  put("budget-more", lately ? `Of the last ${duration((status.at_ms - budgets[0][0]) / 1000)}.` : `Of the ${duration(all)} since the loop began.`);
}

function drawDeadLetters() {
  const letters = status.dead_letters.recent;
  const text = letters.length ? `The last ${letters.length}, the newest first; all of them are in the dead-letter topic.` : "None since this worker was started.";
  put("dead-more", text);
  put("letters", ...letters.map((letter) => element("li", {},
    element("b", {}, letter.reason), ` at partition ${letter.partition}, offset ${whole(letter.offset)}`,
    letter.timestamp_ms > 0 ? `, ${new Date(letter.timestamp_ms).toISOString().replace("T", " ").slice(0, 19)} UTC` : "",
    element("p", { class: "quiet" }, letter.message))));
}

let configured = "";

function drawConfig() {
  const text = JSON.stringify(status.config);
  if (text === configured) return;
  configured = text;
  put("config", ...Object.entries(status.config).map(([section, settings]) => element("section", {}, element("h3", {}, `[${section}]`),
    element("dl", {}, ...Object.entries(settings).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, typeof value === "string" ? value : JSON.stringify(value))])))));
}

// Drawing what /model says.

function named(name) {
  const shown = element("span", { class: "name" });
  name.split(" \u00d7 ").forEach((factor, index) => {
    if (index) shown.append(element("span", { class: "times" }, " \u00d7 "));
    shown.append(factor);
  });
  return shown;
}

function drawModel() {
  drawMonomials();
  drawParents();
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
    "digest, last epoch's end": model.digest || "no epoch has ended",
    "newest snapshot": model.snapshot === null ? "none yet" : `at offset ${whole(model.snapshot.at)}, ${model.snapshot.digest.slice(0, 8)}`,
  };
  put("model-facts", ...Object.entries(facts).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

/** What is shown must never be another partition's. */
function forgetModel() {
  model = null;
  for (const id of ["monomials", "found-more", "parents-more", "fill", "fill-more", "degrees", "model-facts"]) put(id);
  document.querySelector("#parents tbody").replaceChildren();
}

function drawMonomials() {
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

function drawParents() {
  const rows = model.parents.slice(0, PARENTS).map((each) => element("tr", {}, element("td", { class: "name" }, each.name),
    element("td", { class: "number" }, compact(each.children)), element("td", { class: "number" }, each.gain.toPrecision(3)), element("td", { class: "name" }, each.heaviest || "-")));
  const none = element("tr", {}, element("td", { colspan: "4", class: "quiet" }, "No parents yet: they are chosen when an epoch ends."));
  document.querySelector("#parents tbody").replaceChildren(...(rows.length ? rows : [none]));
  const all = sum(model.degrees.map((each) => each.parents));
  put("parents-more", all ? `The gain is what the children add to a score at their largest, in sum. ${whole(model.parents_examined)} of ${plural(all, "parent")} examined.` : "");
}

// What the reader chooses.

function choose(name, ids, set, draw) {
  for (const id of ids) {
    $(id).addEventListener("click", () => {
      set(id.replace(`${name}-`, ""));
      for (const each of ids) $(each).setAttribute("aria-pressed", String(each === id));
      draw();
    });
  }
}

choose("span", ["span-recent", "span-whole"], (value) => { span = value; }, () => status && drawLoss());
choose("list", ["list-products", "list-top"], (value) => { list = value; }, () => model && drawMonomials());
$("partition").addEventListener("change", () => {
  chosen = Number($("partition").value);
  picked = true;
  forgetModel();
  drawLoss();
  askModel();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) askStatus(); });

await askStatus();
every(STATUS_MS, askStatus);
every(MODEL_MS, askModel);
