// A line chart without a library, that a mouse, a finger or arrow keys can read.

import { element } from "./dom.js";
import { loss } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";

function shape(tag, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
}

/** Round steps for an axis from `low` to `high`, about `count` of them. */
export function ticks(low, high, count) {
  const span = high - low || 1;
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return { values: found, digits: Math.max(0, Math.min(6, Math.ceil(-Math.log10(step) + 0.3))) };
}

const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

function clockTicks(from, to, count) {
  const seconds = (to - from) / 1000;
  const step = 1000 * (CLOCK_STEPS.find((each) => seconds / each <= count) ?? Math.ceil(seconds / count / 86400) * 86400);
  const zone = new Date(to).getTimezoneOffset() * 60000;
  const found = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) found.push(at);
  return { values: found, step };
}

/** The time of day, or the day if `step` milliseconds from one label to the next are days. */
export function clock(at, step = 1000) {
  const date = new Date(at);
  const two = (number) => String(number).padStart(2, "0");
  if (step >= 86400000) return date.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return step >= 60000 ? minutes : `${minutes}:${two(date.getSeconds())}`;
}

/** Points, [[ms, ...]], that are further apart than this many milliseconds have a time between them when nobody looked. */
export function holeOf(points) {
  const steps = points.slice(1).map((point, index) => point[0] - points[index][0]).sort((a, b) => a - b);
  return Math.max(10000, 5 * (steps[steps.length >> 1] ?? 0));
}

/** Lines over time, which `draw` may be asked for often:
 *
 * series  [{name, kind, points: [[ms, value]]}], a value that is null breaks the line
 * marks   moments to be marked
 * label   what is shown, in words
 * format  makes text of a value
 * from    a value that the axis must have, if any
 * hole    so many milliseconds without a point break the line */
export class LineChart {
  constructor(host, empty = "No labelled example yet.") {
    this.host = host;
    this.shown = null;
    this.at = null;
    this.svg = shape("svg", { role: "img", tabindex: "0" });
    this.tip = element("div", { class: "tip", hidden: "" });
    this.empty = element("p", { class: "empty quiet" }, empty);
    host.append(this.svg, this.tip, this.empty);
    new ResizeObserver(() => this.shown && this.draw(this.shown)).observe(host);
    host.addEventListener("pointermove", (event) => this.point(event.clientX - host.getBoundingClientRect().left));
    host.addEventListener("pointerleave", () => this.release());
    this.svg.addEventListener("blur", () => this.release());
    this.svg.addEventListener("keydown", (event) => this.step(event));
  }

  draw(shown) {
    this.shown = shown;
    const width = this.host.clientWidth;
    const height = this.host.clientHeight;
    const all = shown.series.flatMap((each) => each.points.filter(([, value]) => value !== null));
    this.empty.hidden = all.length > 0;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    this.svg.setAttribute("aria-label", shown.label);
    this.svg.replaceChildren();
    if (!all.length || width < 80) return;
    const box = { left: 46, right: width - 8, top: 8, bottom: height - 24 };
    const x0 = Math.min(...all.map(([x]) => x));
    const x1 = Math.max(...all.map(([x]) => x), x0 + 10000);
    const ys = all.map(([, y]) => y).concat(shown.from ?? []);
    const low = Math.min(...ys);
    const high = Math.max(...ys);
    const room = (high - low || Math.abs(high) || 1) * 0.08;
    const y0 = low >= 0 ? Math.max(0, low - room) : low - room;
    const y1 = high + room;
    this.x = (at) => box.left + ((at - x0) / (x1 - x0)) * (box.right - box.left);
    this.y = (value) => box.bottom - ((value - y0) / (y1 - y0)) * (box.bottom - box.top);
    const scale = ticks(y0, y1, Math.max(2, Math.round((box.bottom - box.top) / 36)));
    for (const value of scale.values) {
      const y = this.y(value);
      this.svg.append(shape("line", { class: "grid", x1: box.left, x2: box.right, y1: y, y2: y }));
      this.svg.append(shape("text", { class: "tick", x: box.left - 8, y: y + 4, "text-anchor": "end" }, shown.format && high >= 4 ? shown.format(Math.abs(value)) : Math.abs(value) < 1e-12 ? "0" : value.toFixed(scale.digits)));
    }
    const times = clockTicks(x0, x1, Math.max(2, Math.floor((box.right - box.left) / 90)));
    for (const at of times.values) {
      const x = Math.min(Math.max(this.x(at), box.left + 24), box.right - 24);
      this.svg.append(shape("text", { class: "tick", x, y: height - 6, "text-anchor": "middle" }, clock(at, times.step)));
    }
    // More lines than this are a hatching that hides the curves.
    const marks = shown.marks.filter((at) => at >= x0 && at <= x1);
    const every = Math.ceil(marks.length / 60);
    marks.filter((_, index) => index % every === 0).forEach((at) => {
      this.svg.append(shape("line", { class: "epoch", x1: this.x(at), x2: this.x(at), y1: box.top, y2: box.bottom }));
    });
    for (const series of shown.series) {
      if (!series.points.length) continue;
      let last = -Infinity;
      const path = series.points.map(([x, y]) => {
        const mark = x - last > (shown.hole ?? Infinity) ? "M" : "L";
        last = y === null ? -Infinity : x;
        return y === null ? "" : `${mark}${this.x(x).toFixed(1)},${this.y(y).toFixed(1)}`;
      }).join("");
      this.svg.append(shape("path", { class: `curve c-${series.kind}`, d: path }));
    }
    this.box = box;
    this.cursor = shape("g");
    this.svg.append(this.cursor);
    if (this.at !== null) this.tell();
  }

  times() {
    const longest = this.shown.series.reduce((best, each) => (each.points.length > best.length ? each.points : best), []);
    return longest.map(([x]) => x);
  }

  point(x) {
    if (!this.shown || !this.cursor) return;
    const times = this.times();
    if (!times.length) return;
    this.at = times.reduce((best, at) => (Math.abs(this.x(at) - x) < Math.abs(this.x(best) - x) ? at : best));
    this.tell();
  }

  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
    if (by === undefined && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    const times = this.times();
    if (!times.length) return;
    const now = this.at === null ? times.length : times.indexOf(this.at);
    const next = event.key === "Home" ? 0 : event.key === "End" ? times.length - 1 : now + by;
    this.at = times[Math.min(Math.max(next, 0), times.length - 1)];
    this.tell();
  }

  release() {
    this.at = null;
    this.tip.hidden = true;
    this.cursor?.replaceChildren();
  }

  tell() {
    const x = this.x(this.at);
    this.cursor.replaceChildren(shape("line", { class: "cursor", x1: x, x2: x, y1: this.box.top, y2: this.box.bottom }));
    const lines = [element("div", {}, element("b", {}, clock(this.at)))];
    for (const series of this.shown.series) {
      const found = series.points.find(([at]) => at === this.at);
      if (!found || found[1] === null) continue;
      this.cursor.append(shape("circle", { class: `knob-${series.kind}`, cx: x, cy: this.y(found[1]), r: 3.5 }));
      lines.push(element("div", {}, `${series.name} ${(this.shown.format ?? loss)(found[1])}`));
    }
    this.tip.replaceChildren(...lines);
    this.tip.hidden = false;
    const left = x + 14 + this.tip.offsetWidth > this.host.clientWidth ? x - 14 - this.tip.offsetWidth : x + 14;
    this.tip.style.left = `${Math.max(0, left)}px`;
  }
}
