// What /status says of the worker: who it is, its partitions, its dead letters and its configuration.

import { $, element, put, putRows } from "./dom.js";
import { drawMerging } from "./merging.js";
import { UNITS, compact, duration, loss, percent, total, whole } from "./numbers.js";

/** Draw everything that is of one status alone. `chosen` is the partition whose curves are shown. */
export function drawStatus(status, chosen) {
  const about = status.about;
  document.title = `${about.worker} - stream_apple`;
  put("about", `worker ${about.worker} of group ${about.group}, topic ${about.topic}: ${about.method}, ${about.loss} loss`);
  put("version", `stream_apple ${about.version}, model format ${about.model_format}, Python ${about.python}; up for ${duration((status.at_ms - status.began_ms) / 1000)}`);
  put("loss-unit", UNITS[about.loss] ?? "");
  drawChoice(status.partitions, chosen);
  drawPartitions(status.partitions);
  drawMerging(status.merging);
  drawDeadLetters(status.dead_letters.recent);
  drawConfig(status.config);
}

function drawChoice(partitions, chosen) {
  const numbers = partitions.map((part) => String(part.partition));
  $("partition-choice").hidden = numbers.length < 2;
  const select = $("partition");
  if ([...select.options].map((each) => each.value).join() !== numbers.join()) {
    select.replaceChildren(...numbers.map((number) => element("option", { value: number }, number)));
  }
  if (chosen !== null) select.value = String(chosen);
}

function drawPartitions(partitions) {
  const rows = partitions.map((part) => {
    const recent = part.losses.recent ?? {};
    const left = part.recovery_records_left ? `, ${compact(part.recovery_records_left)} records to go` : "";
    const used = part.table_slots ? percent(part.table_occupied_slots / part.table_slots) : "-";
    const cells = [
      compact(part.lag_records), compact(part.learned_examples), loss(recent.progressive_loss), loss(recent.expanded_progressive_loss ?? null), loss(recent.linear_progressive_loss),
      loss(recent.best_constant_loss), part.features_per_example?.toFixed(1) ?? "-", whole(total(part.parents) - (part.parents["0"] ?? 0)), used,
    ].map((text) => element("td", { class: "number" }, text));
    const digest = part.digest === null ? "-" : element("code", { title: `${part.digest.digest}, when epoch ${part.digest.epoch} had ended` }, part.digest.digest.slice(0, 8));
    return element("tr", {}, element("th", { scope: "row", class: "number" }, String(part.partition)),
      element("td", {}, element("span", { class: `tag ${part.state}` }, part.state), left), ...cells, element("td", {}, digest));
  });
  const none = element("tr", {}, element("td", { colspan: "12", class: "quiet" }, "This worker has no partition at the moment."));
  putRows("#partitions", rows.length ? rows : [none]);
}

function drawDeadLetters(letters) {
  const text = letters.length ? `The last ${letters.length}, the newest first; all of them are in the dead-letter topic.` : "None since this worker was started.";
  put("dead-more", text);
  put("letters", ...letters.map((letter) => element("li", {},
    element("b", {}, letter.reason), ` at partition ${letter.partition}, offset ${whole(letter.offset)}`,
    letter.timestamp_ms > 0 ? `, ${new Date(letter.timestamp_ms).toISOString().replace("T", " ").slice(0, 19)} UTC` : "",
    element("p", { class: "quiet" }, letter.message))));
}

let configured = "";

function drawConfig(config) {
  const text = JSON.stringify(config);
  if (text === configured) return;
  configured = text;
  put("config", ...Object.entries(config).map(([section, settings]) => element("section", {}, element("h3", {}, `[${section}]`),
    element("dl", {}, ...Object.entries(settings).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, typeof value === "string" ? value : JSON.stringify(value))])))));
}
