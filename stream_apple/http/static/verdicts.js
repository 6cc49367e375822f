// What is seen at a glance: how the worker is, and the four figures.

import { clock } from "./charts.js";
import { $, element, put } from "./dom.js";
import { UNITS, compact, duration, loss, percent, plural, sum, total, whole } from "./numbers.js";

const STALE_MS = 5000;

/** Say how the worker is, or since when it has been silent; `problem` is why the last question had no answer. */
export function drawState(status, heardAt, problem) {
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
    else if (status.ready.status === "stopping") drawPill("warn", "stopping");
    else if (status.brokers_reachable === 0) drawPill("bad", "no broker answers");
    else if (waiting.length) drawPill("warn", recovery(status) ?? `waiting for ${waiting.join(", ")}`);
    else if (status.ready.catching_up) drawPill(...behind(status.ready.catching_up));
    else drawPill("good", status.ready.status === "standby" ? "on standby: there are fewer partitions than workers" : "live");
  }
}

const remaining = (backlog) => (typeof backlog.seconds_left === "number" ? `, about ${duration(Math.max(1, Math.round(backlog.seconds_left)))} left` : "");

// What a worker says that waits for nothing but its partitions; null if it waits for something else, too.
function recovery(status) {
  const recovering = status.partitions.filter((part) => part.state !== "live").map((part) => part.partition);
  if (status.ready.waiting_for.length > 1 || !recovering.length || !status.ready.catching_up) return null;
  return `catching up: partition${recovering.length > 1 ? "s" : ""} ${recovering.join(", ")} to recover${remaining(status.ready.catching_up)}`;
}

// A worker that is ready, and has a backlog before it.
function behind(backlog) {
  if (backlog.records_per_second === 0) return ["warn", `${compact(backlog.records)} records behind, and none is being answered`];
  if (backlog.endless) return ["warn", "behind: as much comes as it answers, or more"];
  return ["busy", `catching up${remaining(backlog)}`];
}

function drawPill(kind, text) {
  $("state").className = `state ${kind}`;
  if ($("state-text").textContent !== text) put("state-text", text);
}

/** The mean over partitions, by examples. */
function mean(status, name) {
  const parts = status.partitions.filter((part) => typeof part.losses.recent?.[name] === "number");
  const weight = sum(parts.map((part) => part.learned_examples));
  return weight ? sum(parts.map((part) => part.losses.recent[name] * part.learned_examples)) / weight : null;
}

/** The recent loss of scores that were given before their labels came, beside linear's; "" if there are none. */
function whenAsked(parts) {
  const judged = parts.filter((part) => typeof part.asked?.losses.recent?.published === "number");
  const weight = sum(judged.map((part) => part.asked.examples.judged));
  const of = (name) => sum(judged.map((part) => part.asked.losses.recent[name] * part.asked.examples.judged)) / weight;
  return weight ? `; when asked ${loss(of("published"))}, linear ${loss(of("linear"))}` : "";
}

/** Draw the four figures. */
export function drawVerdicts(status) {
  const parts = status.partitions;
  const [published, linear] = [mean(status, "progressive_loss"), mean(status, "linear_progressive_loss")];
  const alone = mean(status, "expanded_progressive_loss");
  const worst = drawNotice(parts);
  const findings = status.findings.map((text) => `${text}.`).join(" ");
  $("findings").hidden = !findings;
  if ($("findings").innerText !== findings) put("findings", findings); // only a change is announced
  figure("v-loss", loss(published), "recent loss", worst);
  const gain = linear > 0 ? 1 - published / linear : 0;
  const beside = gain >= 0 ? "below" : "above";
  const unit = (UNITS[status.about.loss] ?? "").split(",")[0];
  put("v-loss-more", published === null ? "no labelled example yet" : `${unit ? `${unit}, ` : ""}${percent(Math.abs(gain))} ${beside} linear (${loss(linear)}); ${alone === null ? "" : `expanded ${loss(alone)}; `}best constant ${loss(mean(status, "best_constant_loss"))}${whenAsked(parts)}`);

  const records = sum(parts.map((part) => part.lag_records));
  figure("v-lag", compact(records), records === 1 ? "record behind" : "records behind", "");
  const told = parts.every((part) => typeof part.lag_records === "number");
  const rate = perSecond(status);
  const speed = rate === null ? "" : `${compact(rate)} records a second on average`;
  put("v-lag-more", [speed, records > 0 ? eventTime(parts, status.at_ms) : told ? "all that has come is answered" : "how far behind is not known yet"].filter(Boolean).join("; "));

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
  const features = sum(parts.map((part) => total(part.monomials) - (part.monomials["0"] ?? 0)));
  const [count, what] = parents ? [parents, "parent"] : [features, "feature"]; // not every learner has parents
  figure("v-grow", whole(count), count === 1 ? what : `${what}s`, "");
  const sizes = parts.map((part) => part.features_per_example).filter((value) => value !== null && value !== undefined);
  const ends = parts.filter((part) => part.epoch_end_timestamp_seconds).map((part) => part.epoch_end_timestamp_seconds - part.watermark_timestamp_seconds);
  const notes = sizes.length ? [`${(sum(sizes) / sizes.length).toFixed(1)} features an example`] : [];
  if (ends.length) notes.push(`the epoch ends in ${duration(Math.max(0, Math.min(...ends)))} of event time`);
  put("v-grow-more", notes.join("; ") || "no epoch has ended yet");
}

const NOTED = 0.01; // worse by less is noise
const SETTLED = 500; // examples: the first ones say little

/** Say where predictions are worse than simpler ones would be, of recent examples; returns the figure's class. */
function drawNotice(parts) {
  const judged = parts.filter((part) => part.learned_examples >= SETTLED && part.losses.recent);
  const above = (part, name, reference) => {
    const { recent } = part.losses;
    return typeof recent[name] === "number" && typeof recent[reference] === "number" && recent[name] > recent[reference] * (1 + NOTED);
  };
  const told = (part, name, reference) => `partition ${part.partition}: ${loss(part.losses.recent[name])} against ${loss(part.losses.recent[reference])}`;
  const cases = [
    ["bad", "Predictions are worse than a constant", "progressive_loss", "best_constant_loss", "The mean label would be better."],
    ["warn", "Predictions are worse than linear", "progressive_loss", "linear_progressive_loss", "Products do not pay here: has the data changed, or is the table too small?"],
    ["note", "The expanded predictor is worse than linear", "expanded_progressive_loss", "linear_progressive_loss", "What is published is a mixture, which leans on whoever is better."],
  ];
  for (const [kind, title, name, reference, advice] of cases) {
    const found = judged.filter((part) => above(part, name, reference));
    if (!found.length) continue;
    $("notice").className = `notice ${kind}`;
    $("notice").hidden = false;
    // Only a change is announced.
    if ($("notice-title").textContent !== `${title}.`) put("notice-title", `${title}.`);
    put("notice-more", `Recent loss of ${found.map((part) => told(part, name, reference)).join("; ")}. ${advice}`);
    return kind === "note" ? "" : "warn";
  }
  $("notice").hidden = true;
  put("notice-title");
  return "";
}

const seen = []; // [ms, records processed, when the worker was started] of the last minute

// The mean of the last minute: from one look to the next it leaps, for records are committed in gusts.
function perSecond(status) {
  const now = [status.at_ms, sum(status.partitions.map((part) => total(part.examples))), status.began_ms];
  if (seen.length && (seen[0][2] !== now[2] || now[0] < seen.at(-1)[0] || now[1] < seen.at(-1)[1])) seen.length = 0;
  seen.push(now);
  while (seen.length > 2 && seen[0][0] < now[0] - 60000) seen.shift();
  return now[0] > seen[0][0] ? ((now[1] - seen[0][1]) * 1000) / (now[0] - seen[0][0]) : null;
}

const DAY_S = 86400;

// Where the partition that is furthest behind stands: old events are a history, not an alarm, so their date is told.
function eventTime(parts, at) {
  const seconds = Math.max(0, ...parts.map((part) => part.lag_seconds ?? 0));
  if (seconds < DAY_S) return seconds ? `event time ${duration(seconds)} behind` : "";
  const day = new Date(at - 1000 * seconds).toISOString().slice(0, 10);
  return `${seconds > 30 * DAY_S ? "replaying history: " : ""}the stream\u2019s event time is ${day}`;
}

function figure(id, text, unit, kind) {
  $(id).className = `figure ${kind}`;
  put(id, text, " ", element("small", {}, unit));
}
