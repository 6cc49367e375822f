// Where time goes: the loop's, and that of the threads that learn.

import { element, filling, put } from "./dom.js";
import { duration, percent, sum, total } from "./numbers.js";

// The colours of phases and steps, by group: more than eight can't be told apart.
const PHASES = [
  ["waiting for records", ["fetch"], "idle"],
  ["waiting for models", ["wait"], "f0"],
  ["sending", ["send"], "f2"],
  ["committing", ["commit"], "f3"],
  ["snapshots", ["snapshot", "restore"], "f4"],
  ["rebalances", ["rebalance"], "f5"],
];
const STEPS = [
  ["learning", ["learn"], "f0"],
  ["decoding", ["decode"], "f1"],
  ["encoding", ["encode"], "f2"],
  ["growing", ["grow"], "f6"],
];

const budgets = []; // [ms, seconds by phase, seconds by step] of the last minute

/** Draw where the time of the loop and of its threads went, of the last minute if it is known. */
export function drawBudget(status) {
  const last = budgets.at(-1);
  if (last && status.at_ms < last[0]) budgets.length = 0;
  budgets.push([status.at_ms, status.loop_seconds, status.model_seconds]);
  while (budgets.length > 2 && budgets[0][0] < status.at_ms - 60000) budgets.shift();
  const [began, loop, models] = budgets[0];
  const lately = budgets.length > 5 && total(status.loop_seconds) - total(loop) > 1;
  const spent = since(status.loop_seconds, lately ? loop : {});
  put("budget", ...stack(PHASES, spent), element("p", { class: "quiet" }, "The threads that learn:"),
    ...stack(STEPS, since(status.model_seconds, lately ? models : {})));
  put("budget-more", lately ? `Of the last ${duration((status.at_ms - began) / 1000)}.` : `Of the ${duration(total(spent) || 1)} since the loop began.`);
}

function since(seconds, before) {
  return Object.fromEntries(Object.entries(seconds).map(([name, value]) => [name, value - (before[name] ?? 0)]));
}

// A bar of shares, and its legend.
function stack(groups, spent) {
  const all = total(spent) || 1;
  const known = new Set(groups.flatMap(([, names]) => names));
  const rest = Object.keys(spent).filter((name) => !known.has(name));
  const shares = [...groups, ["other", rest, "f7"]].map(([name, names, kind]) => [name, sum(names.map((each) => spent[each])) / all, kind]).filter(([, share]) => share >= 0.0005);
  const bar = element("div", { class: "stack", role: "img", "aria-label": shares.map(([name, share]) => `${name} ${percent(share)}`).join(", ") },
    ...shares.map(([name, share, kind]) => { const part = filling(share, kind); part.title = `${name} ${percent(share)}`; return part; }));
  const legend = element("ul", { class: "legend" }, ...shares.map(([name, share, kind]) => element("li", {},
    element("span", { class: `key box ${kind}`, "aria-hidden": "true" }), `${name} `, element("b", {}, percent(share)))));
  return [bar, legend];
}
