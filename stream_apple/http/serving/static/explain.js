// An example that is pasted, and its score as a sum by name: what POST :explain says, drawn.

import { $, element, filling, put, putRows } from "./dom.js";
import { plural, signed, whole } from "./numbers.js";

const SHOWN = 200; // an example may have thousands of features
let model = null;

function state(text, kind) {
  put("state-text", text);
  $("state").className = `state ${kind}`;
}

/** Whose models these are, and whether they are ready. */
async function introduce() {
  try {
    [model] = (await (await fetch("v1/models")).json()).models;
    const reply = await fetch(`v1/models/${encodeURIComponent(model)}`);
    const facts = await reply.json();
    put("about", `model ${model}, settings ${facts.model}, ${plural(facts.partitions.length, "partition")}`);
    state(facts.ready ? "ready" : "not ready: models are being restored, or behind", facts.ready ? "good" : "busy");
  } catch {
    state("the replica does not answer", "bad");
  }
}

function refuse(text) {
  put("refused", text);
  $("refused").hidden = false;
  $("answer").hidden = true;
}

async function ask() {
  const text = $("instance").value.trim();
  if (!text) {
    refuse("expected an example, found nothing");
    return;
  }
  $("ask").disabled = true;
  try {
    if (model === null) await introduce();
    // The text goes as it is: a number that JavaScript can't hold would be another one afterwards.
    const reply = await fetch(`v1/models/${encodeURIComponent(model)}:explain`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: `{"instances": [${text}]}`,
    });
    const facts = await reply.json().catch(() => ({}));
    if (!reply.ok) refuse(facts.error ?? `the replica answered with status ${reply.status}`);
    else if (facts.predictions.length !== 1) refuse(`expected one example, found ${facts.predictions.length}`);
    else draw(facts.predictions[0], facts.explanations[0], facts.as_of[0]);
  } catch {
    state("the replica does not answer", "bad");
    refuse("The replica does not answer.");
  } finally {
    $("ask").disabled = false;
  }
}

function draw(prediction, explanation, asOf) {
  $("refused").hidden = true;
  $("answer").hidden = false;
  const boundary = asOf.boundary ? `:${asOf.boundary}` : "";
  put("as-of", `partition ${asOf.partition}, as of offset ${whole(asOf.offset)}: `,
    element("code", {}, `stream-apple score --as-of ${asOf.partition}@${asOf.offset}${boundary}`));
  put("score", explanation.score.toPrecision(6));
  $("score").title = String(explanation.score);
  put("score-more", said(prediction, explanation));
  const terms = explanation.contributions.slice(0, SHOWN);
  const most = Math.max(...terms.map((each) => Math.abs(each.amount)), 1e-300);
  putRows("#terms", terms.map((each) => {
    const bar = element("span", { class: "weight", "aria-hidden": "true" });
    bar.append(filling(Math.abs(each.amount) / most / 2, each.amount < 0 ? "down" : "up"));
    return element("tr", {}, element("th", { scope: "row", class: "name" }, each.name),
      element("td", { class: "number" }, String(each.value)),
      element("td", { class: "number", title: String(each.weight) }, signed(each.weight)),
      element("td", { class: "number", title: String(each.amount) }, signed(each.amount)),
      element("td", { class: "drawn" }, bar));
  }));
  const left = explanation.contributions.slice(SHOWN);
  const rest = left.reduce((total, each) => total + each.amount, 0);
  put("terms-more", left.length
    ? `The ${SHOWN} largest; ${plural(left.length, "smaller one")} add ${signed(rest)}.`
    : "Added one after another, from the top, they are the score to the last bit. What the model has never seen adds nothing, and is not here. (rest) is no feature\u2019s: scores are held within bounds, and a mixture is not quite its weighted sum.");
  $("mixture").hidden = !explanation.predictors.length;
  putRows("#predictors", explanation.predictors.map((each) => element("tr", {},
    element("th", { scope: "row" }, each.name), element("td", { class: "number" }, each.share.toPrecision(3)),
    element("td", { class: "number" }, signed(each.score)))));
}

/** What the score means. */
function said(prediction, explanation) {
  if (explanation.label !== null) {
    return `of class ${explanation.label}, the most probable one (${prediction.probability.toPrecision(4)}): the logarithm of its probability, less the mean over all classes`;
  }
  if (prediction.probability !== undefined) return `log-odds of label 1, which is a probability of ${prediction.probability.toPrecision(4)}`;
  return "the label that is expected";
}

$("ask").addEventListener("click", ask);
$("instance").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask();
});
introduce();
