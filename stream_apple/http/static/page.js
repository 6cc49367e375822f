// The status page: asks the worker for /status every second and for /model every five, and draws what it says.

import { drawBudget } from "./budget.js";
import { $, put } from "./dom.js";
import { drawLoss } from "./loss.js";
import { drawModel, drawMonomials, forgetModel } from "./model.js";
import { drawPace } from "./pace.js";
import { drawStatus } from "./status.js";
import { drawState, drawVerdicts } from "./verdicts.js";

const STATUS_MS = 1000;
const MODEL_MS = 5000;
const TIMEOUT_MS = 4000;
const POINTS = 1200; // kept of each partition since the page was opened
const TOP = 24;

const histories = new Map(); // partition -> [[ms, examples, epoch, recent, linear, constant, whole, ..., offset, lag]]
let status = null;
let model = null;
let chosen = null;
let picked = false;
let span = "recent";
let list = "products";
let heardAt = null;
let problem = "";
let worker = null; // when it was started: another time is another worker

// Asking.

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!answer.ok) throw new Error(`${path.split("?")[0]}: the worker answered ${answer.status}`);
  return answer.json();
}

async function askStatus() {
  // A partition that comes brings points along that are older than those of the others.
  const known = (status?.partitions ?? []).filter((part) => part.state !== "restoring").map((part) => histories.get(String(part.partition)));
  const newest = known.length ? Math.min(...known.map((points) => points?.at(-1)?.[0] ?? 0)) : 0;
  try {
    const found = await ask(`status?since=${newest}`);
    if (worker !== null && found.began_ms !== worker) {
      status = null;
      histories.clear(); // a new process: its history starts anew, and this answer may lack its beginning
    }
    worker = found.began_ms;
    heardAt = Date.now();
    problem = "";
    remember(found);
    status = found;
    drawStatus(status, chosen);
    drawVerdicts(status);
    drawBudget(status);
    drawCurves();
  } catch (error) {
    problem = error.name === "TimeoutError" ? "it does not answer" : error.message;
  }
  drawState(status, heardAt, problem);
}

function remember(found) {
  for (const [partition, points] of Object.entries(found.history)) {
    const known = (histories.get(partition) ?? []).filter(([at]) => at <= found.at_ms); // its clock may be set back
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
    drawModel(model, list);
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

function drawCurves() {
  const points = histories.get(String(chosen)) ?? [];
  drawLoss(points, span);
  drawPace(points);
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

choose("span", ["span-recent", "span-whole"], (value) => { span = value; }, drawCurves);
choose("list", ["list-products", "list-top"], (value) => { list = value; }, () => model && drawMonomials(model, list));
$("partition").addEventListener("change", () => {
  chosen = Number($("partition").value);
  picked = true;
  model = null;
  forgetModel();
  drawCurves();
  askModel();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) askStatus(); });

await askStatus();
every(STATUS_MS, askStatus);
every(MODEL_MS, askModel);
