"""The row loop: each example is scored, and then learned.

The update is adaptive (Duchi, Hazan, Singer 2011), normalized (Ross, Mineiro, Langford 2013), and invariant to
importance weights (Karampatziakis, Langford 2011).

**Naive Bayes start.** With it, scores do not start from 0 but from trust * odds. The odds are those of the averaged
n-join estimator (AnJE of Zaidi et al.), which is naive Bayes for n = 1: each tuple of n attributes votes by how much
more frequent its feature is in one class than in the other,

    odds = log(P(1) / P(-1)) + w * sum over tuples F of log(theta(F, 1) / theta(F, -1)),    w = 1 / C(A - 1, n - 1),

so that each of the A base features counts once. theta(F, y) = (N(F, y) + m * P(F)) / (N(y) + m) with m = PRIOR: the
paper shrinks theta towards 1 / |F|, but the number of values of a tuple is unknown on a stream, so it is the frequency
of F in both classes here. Only presence is counted, so only features whose value is 1 vote. Attributes are not
independent, so the odds are too extreme. Trust corrects that: it is learned from the loss of trust * odds alone, by
Newton's method with forgetting. The weights learn what is missing.

**Selection by cv.** Zaidi et al. leave a tuple out, and validate on examples held back. Here each example is scored
before it is learned, so each validates what was learned before: the gain of a feature is the sum of the loss without
its contribution less the loss.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel, part
from stream_apple.learners.loss_functions import (
    bounds_of,
    clip_score,
    include_label,
    invariant_step,
    logistic_descent,
    loss_of,
    squared_slope,
)
from stream_apple.learners.scores import Scores
from stream_apple.learners.tuples.expansion import find_features, write_base, write_products
from stream_apple.learners.tuples.model import (
    CURVATURE,
    EXAMPLES,
    FEATURES,
    NORM,
    OCCUPIED,
    REFUSED,
    TRUNCATED,
    TRUST,
    WEIGHT,
    TupleModel,
    TupleScratch,
    place_of,
)

PRIOR = 0.1
MOST_ODDS = 50.0  # as scores
MOST_TRUST = 100.0
KEEP = 0.99  # of the curvature after each example: trust depends on the latest hundred or so
FIRST_GRADIENT = 1.0
"""In squares of the value: where a feature's accumulator begins with a naive Bayes start. It makes first steps smaller,
because the start already says something."""

# Whatever is learned, a model stays finite: values are below 2^60, weights at most MOST_WEIGHT, and accumulators stay
# between the other two.
MOST_WEIGHT = 2.0**66
LEAST_SQUARE, MOST = 1.2e-38, float(np.finfo(np.float32).max)


@kernel
def process_rows(
    model: TupleModel, work: TupleScratch, batch: Batch, scores: Scores, start: int, stop: int, learn: bool
) -> int:
    """Score each row of [start, stop) in order; if `learn`, then learn it, unless it has no label or no weight.

    Writes these rows of `scores`; a loss is NaN without a label. Returns `stop`, or the first row whose score is not
    finite. The row has changed nothing.
    """
    settings = model.settings
    for row in range(start, stop):
        label, importance = batch.labels[row], batch.weights[row]
        base, cut_off, sound = write_base(model.cuts, batch, row, work.products)
        size, cut_short = write_products(model, work.products, base)
        found, missing = find_features(model, work, size)
        raw = weighted_sum(model, work, found)
        odds = odds_of_tuples(model, work, found) if settings.starts_from_counts else 0.0
        raw += score_of_start(model.trust, odds)
        if not sound or not math.isfinite(raw):
            return row
        low, high = bounds_of(settings.loss, model.labels)
        score = clip_score(raw, low, high)
        scores.predictions[row] = scores.expanded[row] = scores.linear[row] = score
        scores.losses[row] = math.nan if math.isnan(label) else loss_of(settings.loss, score, label)
        if not learn or math.isnan(label) or not importance > 0.0:
            continue
        include_label(settings.loss, model.labels, label)
        if settings.ablates:
            add_gains(model, work, found, (raw, low, high), (label, importance))
        found = enter_missing(model, work, found, missing)
        model.counts[EXAMPLES] += 1
        model.counts[FEATURES] += found
        model.counts[TRUNCATED] += cut_off or cut_short
        if settings.starts_from_counts:
            learn_trust_in(model.trust, odds, label, importance)
        count_in_class(model, work, found, label, importance)
        update(model, work, found, score, label, importance)
    return stop


@part
def weighted_sum(model: TupleModel, work: TupleScratch, found: int) -> float:
    """Return the sum of weight times value."""
    total = 0.0
    for t in range(found):
        total += np.float64(model.slots[work.slots[t]]["weight"]) * work.values[t]
    return total


@part
def odds_of_tuples(model: TupleModel, work: TupleScratch, found: int) -> float:
    """Return the naive Bayes log-odds of label 1, and write what each feature contributes to `work.votes`."""
    slots, order = model.slots, model.settings.order
    totals = slots[len(slots) - 1]
    all_positive, all_negative = totals["positive"], totals["negative"]
    if not all_positive + all_negative > 0.0:
        work.votes[:found] = 0.0
        return 0.0
    of_all = PRIOR / (all_positive + all_negative)
    ratio = (all_negative + PRIOR) / (all_positive + PRIOR)
    present = 0
    for t in range(found):
        counted = slots[work.slots[t]]
        work.votes[t] = 0.0
        if work.values[t] != 1.0:
            continue
        present += counted["degree"] == 1
        if counted["degree"] == order:
            drawn = of_all * (counted["positive"] + counted["negative"])
            if drawn > 0.0:
                work.votes[t] = math.log((counted["positive"] + drawn) / (counted["negative"] + drawn) * ratio)
    share = 1.0  # 1 / C(present - 1, order - 1)
    for factor in range(1, order):
        share *= factor / max(present - factor, 1)
    odds = math.log((all_positive + 1.0) / (all_negative + 1.0))
    for t in range(found):
        work.votes[t] *= share
        odds += work.votes[t]
    return float(min(max(odds, -MOST_ODDS), MOST_ODDS))


@part
def score_of_start(trust: NDArray[np.float64], odds: float) -> float:
    """Return the score from which weights start."""
    return float(min(max(trust[TRUST] * odds, -MOST_ODDS), MOST_ODDS))


@part
def learn_trust_in(trust: NDArray[np.float64], odds: float, label: float, importance: float) -> None:
    """Move trust by a Newton step on the logistic loss of the start alone; before the example is counted."""
    slope, curvature = logistic_descent(score_of_start(trust, odds), label)
    trust[CURVATURE] = KEEP * trust[CURVATURE] + importance * curvature * odds * odds
    moved = trust[TRUST] + importance * slope * odds / (trust[CURVATURE] + 1.0)
    trust[TRUST] = min(max(moved, 0.0), MOST_TRUST)


@part
def add_gains(
    model: TupleModel, work: TupleScratch, found: int, score: tuple[float, float, float], target: tuple[float, float]
) -> None:
    """Add to each feature how much greater the loss would have been without its contribution.

    score   the sum of all contributions, and the bounds of scores
    target  label and importance
    """
    (raw, low, high), (label, importance), loss = score, target, model.settings.loss
    before = loss_of(loss, clip_score(raw, low, high), label)
    for t in range(1, found):
        owner = model.slots[work.slots[t]]
        contribution = np.float64(owner["weight"]) * work.values[t]
        if model.settings.starts_from_counts:
            contribution += model.trust[TRUST] * work.votes[t]
        without = clip_score(raw - contribution, low, high)
        owner["gain"] += importance * (loss_of(loss, without, label) - before)


@part
def enter_missing(model: TupleModel, work: TupleScratch, found: int, missing: int) -> int:
    """Give the missing products slots, as far as there are free ones; return the new number of features."""
    for m in range(missing):
        product = work.products[work.missing[m]]
        at = place_of(model.slots, product["key"])
        if at < 0:
            model.counts[REFUSED] += 1
            continue
        owner, value = model.slots[at], product["value"]
        if owner["key"] == 0:
            owner["key"] = product["key"]
            owner["attributes"] = product["attributes"]
            owner["degree"] = product["degree"]
            if model.settings.starts_from_counts:
                owner["gradient"] = FIRST_GRADIENT * value * value
            model.counts[OCCUPIED] += 1
        work.slots[found], work.values[found] = at, value
        found += 1
    return found


@part
def count_in_class(model: TupleModel, work: TupleScratch, found: int, label: float, importance: float) -> None:
    """Add the example's importance to the count of its label, for each of its features."""
    for t in range(found):
        if label > 0.0:
            model.slots[work.slots[t]]["positive"] += importance
        else:
            model.slots[work.slots[t]]["negative"] += importance


@part
def update(model: TupleModel, work: TupleScratch, found: int, score: float, label: float, importance: float) -> None:
    """Move the weights of the example's features against the gradient of its loss at this score."""
    settings, slots, steps = model.settings, model.slots, model.steps
    square = min(importance * squared_slope(settings.loss, score, label), MOST)
    if square <= 0.0:
        return
    norm, sensitivity = 0.0, 0.0
    for t in range(found):
        owner, value = slots[work.slots[t]], np.float64(work.values[t])
        if abs(value) > owner["scale"]:
            owner["weight"] *= owner["scale"] / abs(value)  # so that weight * scale stays as it was
            owner["scale"] = abs(value)
        owner["gradient"] = min(max(owner["gradient"] + square * max(value * value, LEAST_SQUARE), LEAST_SQUARE), MOST)
        ratio = value / owner["scale"]
        work.steps[t] = ratio / math.sqrt(owner["gradient"])
        norm += ratio * ratio
        sensitivity += value * work.steps[t]
    steps[NORM] += importance * norm
    steps[WEIGHT] += importance
    normalizer = math.sqrt(steps[WEIGHT] / steps[NORM])
    by = invariant_step(settings.loss, score, label, settings.rate * importance, sensitivity * normalizer)
    change = min(max(by * normalizer, -MOST), MOST)
    for t in range(found):
        owner = slots[work.slots[t]]
        owner["weight"] = min(max(owner["weight"] + change * work.steps[t], -MOST_WEIGHT), MOST_WEIGHT)
