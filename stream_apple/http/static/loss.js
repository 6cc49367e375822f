// The curves of progressive loss, and their legend.

import { LineChart, holeOf } from "./charts.js";
import { $, element, put } from "./dom.js";
import { loss } from "./numbers.js";

// In the order in which they are drawn; the numbers are places in a point of the history.
const CURVES = [
  { kind: "constant", name: "best constant", recent: 5, whole: 8 },
  { kind: "linear", name: "linear", recent: 4, whole: 7 },
  { kind: "alone", name: "expanded", recent: 9, whole: 10 },
  { kind: "published", name: "published", recent: 3, whole: 6 },
];

const chart = new LineChart($("loss-chart"));

/** Draw a partition's history, [[ms, examples, epoch, recent, linear, constant, whole, ...]], of one span.
 *
 * The expanded predictor is shown where it is not what is published. */
export function drawLoss(points, span) {
  const mixed = points.some((point) => point[9] !== point[3]);
  const series = CURVES.filter(({ kind }) => mixed || kind !== "alone").map(({ kind, name, ...places }) => ({
    kind, name, points: points.map((point) => [point[0], point[places[span]]]),
  }));
  const marks = [];
  for (let index = 1; index < points.length; index += 1) {
    if (points[index][2] !== points[index - 1][2] && points[index - 1][2] >= 0) marks.push(points[index][0]);
  }
  const newest = new Map(series.map((each) => [each.kind, each.points.findLast(([, value]) => value !== null)?.[1] ?? null]));
  const now = series.map((each) => `${each.name} ${newest.get(each.kind) === null ? "unknown" : loss(newest.get(each.kind))}`).reverse();
  chart.draw({ series, marks, hole: holeOf(points), label: `Progressive loss over time. Now: ${now.join(", ")}. Arrow keys move along the curves.` });
  put("loss-legend", ...[...series].reverse().map((each) => element("li", {},
    element("span", { class: `key k-${each.kind}`, "aria-hidden": "true" }), `${each.name} `,
    element("b", {}, loss(newest.get(each.kind))))));
}
