// Where partitions stand at ends of rounds, and the newest merge; nothing where models are not merged.

import { $, element, put, putRows } from "./dom.js";
import { duration, plural } from "./numbers.js";

const STATES = {
  held: ["waits for the merged model", "replaying"],
  adopted: ["went on with the merged model", "live"],
  late: ["went on with a merge of others", "assigned"],
  skipped: ["went on alone", "restoring"],
};
const REASONS = { idle: "without records", late: "late", passed: "at another round", displaced: "its contribution was lost" };

/** Draw what /status says of merging; null hides the panel. */
export function drawMerging(merging) {
  $("merging-panel").hidden = merging === null;
  if (merging === null) return;
  put("merging-more", `${newest(merging.newest)} Rounds that this worker has seen end: ${outcomes(merging.outcomes)}.`);
  const rows = Object.entries(merging.partitions).map(([number, stand]) => {
    const [text, tag] = STATES[stand.state] ?? ["not known yet", ""];
    const often = stand.skipped > 1 ? `, ${stand.skipped} times in a row` : "";
    return element("tr", {}, element("th", { scope: "row", class: "number" }, number), element("td", { class: "number" }, String(stand.round)),
      element("td", {}, element("span", { class: `tag ${tag}` }, text), often), element("td", { class: "number" }, duration(stand.held_s)));
  });
  const none = element("tr", {}, element("td", { colspan: "4", class: "quiet" }, "No partition of this worker has come to the end of a round yet."));
  putRows("#merging", rows.length ? rows : [none]);
}

function newest(merge) {
  if (merge === null) return "This worker has seen no merge yet.";
  const without = Object.entries(merge.excluded).map(([number, reason]) => `${number} (${REASONS[reason] ?? reason})`);
  const who = merge.roster.length === 1 ? `Round ${merge.round} had partition ${merge.roster[0]} alone` : `Round ${merge.round} has merged ${plural(merge.roster.length, "partition")}: ${merge.roster.join(", ")}`;
  return `${who}${without.length ? `; without ${without.join(", ")}` : ""}.`;
}

function outcomes(counts) {
  return `${counts.adopted} with a merge that the partition is in, ${counts.late} with one of others, ${counts.skipped} alone`;
}
