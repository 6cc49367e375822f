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
  const mean = averages(points, hole);
  show(rates, "rate", [{ name: "records a second", kind: "rate", points: rate }, { name: "on average", kind: "mean", points: mean }], hole);
  show(lags, "lag", [{ name: "records behind", kind: "lag", points: lag }], hole);
}

const MEAN_STEPS = 30; // points that a mean looks back: half a minute at first, and more as points grow apart

// Records come and are committed in gusts: beside that saw, what it amounts to.
function averages(points, hole) {
  let first = 0;
  return points.slice(1).map((now, index) => {
    const before = points[index];
    if (now[OFFSET] < before[OFFSET] || now[AT] - before[AT] > hole) {
      first = index + 1;
      return [now[AT], null];
    }
    first = Math.max(first, index + 1 - MEAN_STEPS);
    return [now[AT], (1000 * (now[OFFSET] - points[first][OFFSET])) / (now[AT] - points[first][AT])];
  });
}

// The last of the series is the one that is told in words.
function show(chart, kind, series, hole) {
  const known = series.map(({ points }) => points.filter(([, value]) => value !== null).map(([, value]) => value));
  const last = known.at(-1).at(-1) ?? null;
  const most = known[0].reduce((high, value) => Math.max(high, value), 0);
  const { name } = series.at(-1);
  chart.draw({
    series, marks: [], from: 0, format: compact, hole,
    label: `${$(`${kind}-title`).innerText} over time. Now ${name}: ${compact(last)}. Arrow keys move along the curve.`,
  });
  put(`${kind}-more`, known[0].length ? `now ${compact(known[0].at(-1))}, ${series.length > 1 ? `${name} ${compact(last)}, ` : ""}at most ${compact(most)}` : "");
}
