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
    else if (waiting.length) drawPill("warn", `waiting for ${waiting.join(", ")}`);
    else drawPill("good", status.ready.status === "standby" ? "on standby: there are fewer partitions than workers" : "live");
  }
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

/** Draw the four figures; `previous` is the status before this one, or null. */
export function drawVerdicts(status, previous) {
  const parts = status.partitions;
  const [published, linear] = [mean(status, "progressive_loss"), mean(status, "linear_progressive_loss")];
  const alone = mean(status, "apple_progressive_loss");
  const worst = drawNotice(parts);
  figure("v-loss", loss(published), "recent loss", worst);
  const gain = linear > 0 ? 1 - published / linear : 0;
  const beside = gain >= 0 ? "below" : "above";
  const unit = (UNITS[status.about.loss] ?? "").split(",")[0];
  put("v-loss-more", published === null ? "no labelled example yet" : `${unit ? `${unit}, ` : ""}${percent(Math.abs(gain))} ${beside} linear (${loss(linear)}); ${alone === null ? "" : `apple alone ${loss(alone)}; `}best constant ${loss(mean(status, "best_constant_loss"))}`);

  const records = sum(parts.map((part) => part.lag_records));
  const seconds = Math.max(0, ...parts.map((part) => part.lag_seconds ?? 0));
  figure("v-lag", compact(records), records === 1 ? "record behind" : "records behind", "");
  const told = parts.every((part) => typeof part.lag_records === "number");
  const rate = perSecond(status, previous);
  const speed = rate === null ? "" : `${compact(rate)} records a second`;
  put("v-lag-more", [speed, records > 0 ? `event time ${duration(seconds)} behind` : told ? "all that has come is answered" : "how far behind is not known yet"].filter(Boolean).join("; "));

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
    ["note", "Apple alone is worse than linear", "apple_progressive_loss", "linear_progressive_loss", "What is published is a mixture, which leans on whoever is better."],
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

function figure(id, text, unit, kind) {
  $(id).className = `figure ${kind}`;
  put(id, text, " ", element("small", {}, unit));
}

function perSecond(status, previous) {
  if (previous === null || status.at_ms <= previous.at_ms) return null;
  const processed = (facts) => sum(facts.partitions.map((part) => total(part.examples)));
  return Math.max(0, (processed(status) - processed(previous)) * 1000 / (status.at_ms - previous.at_ms));
}
