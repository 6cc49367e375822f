// How fast it goes and how far it is behind, over time.

import { LineChart, holeOf } from "./charts.js";
import { $, put } from "./dom.js";
import { compact } from "./numbers.js";

const [AT, OFFSET, LAG] = [0, 11, 12]; // places in a point of the history
const rates = new LineChart($("rate-chart"), "Nothing has come yet.");
const lags = new LineChart($("lag-chart"), "Not known yet.");

/** Draw a partition's history, see `drawLoss`: records a second from one point to the next, and records behind. */
export function drawPace(points) {
  const hole = holeOf(points);
  const rate = [];
  for (let index = 1; index < points.length; index += 1) {
    const [before, now] = [points[index - 1], points[index]];
    const [records, milliseconds] = [now[OFFSET] - before[OFFSET], now[AT] - before[AT]];
    // Fewer than before, after a restart: the model goes back to its snapshot.
    rate.push([now[AT], records < 0 || milliseconds > hole ? null : (1000 * records) / milliseconds]);
  }
  const lag = points.map((point) => [point[AT], point[LAG] < 0 ? null : point[LAG]]);
  show(rates, "rate", "records a second", rate, hole);
  show(lags, "lag", "records behind", lag, hole);
}

function show(chart, kind, name, found, hole) {
  const known = found.filter(([, value]) => value !== null);
  const [last, most] = [known.at(-1)?.[1] ?? null, known.reduce((high, [, value]) => Math.max(high, value), 0)];
  chart.draw({
    series: [{ name, kind, points: found }], marks: [], from: 0, format: compact, hole,
    label: `${name} over time. Now: ${compact(last)}. Arrow keys move along the curve.`,
  });
  put(`${kind}-more`, known.length ? `now ${compact(last)}, at most ${compact(most)}` : "");
}
