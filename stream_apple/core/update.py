"""How a predictor learns one example: losses, their invariant steps, and the adaptive, normalised update.

Adaptive: Duchi, Hazan, Singer 2011. Normalised: Ross, Mineiro, Langford 2013. Invariant to importance weights:
Karampatziakis, Langford 2011. Term for term as Vowpal Wabbit's default.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.expansion import Rule
from stream_apple.core.jit import kernel
from stream_apple.core.table import U1, Floats, Index, Record, Slots, Words

NO_DOUBT = 24 * math.log(2)  # above this margin the logistic loss is 0 in float32: no update (as in Vowpal Wabbit)
TINY_SQUARE = np.float32(1.2e-38)  # a square is never less (as in Vowpal Wabbit)


class Totals(NamedTuple):
    """The model's scalars, in arrays so that kernels can change them.

    norm    float64[2]  N, sum of importance * x^2/scale^2, of apple and of the linear predictor
    weight  float64[2]  W, sum of the importance weights of the examples that moved each of them
    labels  float64[2]  smallest and largest of 0 and the labels learned: scores are clipped to it (squared loss)
    counts  int64[8]    see the constants below
    """

    norm: NDArray[np.float64]
    weight: NDArray[np.float64]
    labels: NDArray[np.float64]
    counts: NDArray[np.int64]


def empty_totals() -> Totals:
    """The scalars of a model that has seen nothing."""
    return Totals(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(8, np.int64))


@kernel
def loss_of(logistic: bool, score: float, label: float) -> float:  # noqa: FBT001
    """Squared: (score - label)^2. Logistic: log(1 + exp(-score * label)), label -1 or 1."""
    if not logistic:
        return (score - label) ** 2
    margin = score * label
    return math.log1p(math.exp(-abs(margin))) - min(margin, 0.0)


@kernel
def squared_slope(logistic: bool, score: float, label: float) -> float:  # noqa: FBT001
    """The square of the loss's derivative by the score."""
    if not logistic:
        return 4.0 * (score - label) ** 2
    margin = score * label
    return 0.0 if margin > NO_DOUBT else (1.0 / (1.0 + math.exp(margin))) ** 2


@kernel
def invariant_step(logistic: bool, score: float, label: float, rate: float, sensitivity: float) -> float:  # noqa: FBT001
    """How far to go along the gradient: the limit of many small steps whose rates sum to `rate`.

    `sensitivity` is the score's change per unit of step. Karampatziakis and Langford 2011, table 1. For the
    logistic loss the new margin m' solves m' + e^m' = m + e^m + rate * sensitivity = z, so e^m' = W(e^z), Lambert's
    W: one iteration of Fritsch, Shafer and Crowley 1973 from Vowpal Wabbit's first guess, so that runs can be
    compared to 1e-5. It is within 9e-5 of W.
    """
    span = rate * sensitivity
    if not logistic:
        if span < 1e-6:
            return 2.0 * (label - score) * rate
        return -(label - score) * math.expm1(-2.0 * span) / sensitivity
    margin = score * label
    grown = math.exp(margin)
    if span < 1e-6:
        return label * rate / (1.0 + grown)
    z = span + margin + grown
    guess = 0.86 * z + 0.01 if z >= 1.0 else math.exp(0.8 * z - 0.65)
    residual = z - guess - math.log(guess)
    scale = 1.0 + guess
    quadratic = 2.0 * scale * (scale + 2.0 * residual / 3.0)
    lambert = guess * (1.0 + residual / scale * (quadratic - residual) / (quadratic - 2.0 * residual))
    move = max(z - lambert - margin, 0.0)  # never backwards, whatever the approximation's error
    return label * move / sensitivity


@kernel
def accumulate(x: Floats, scale: Floats, gradient: Floats, step: Floats, size: Index, slope: np.float32) -> None:
    """Add this example's squared gradients; each feature's step is x / scale / sqrt(gradient)."""
    for t in range(size):
        total = gradient[t] + slope * max(x[t] * x[t], TINY_SQUARE)
        gradient[t] = total
        step[t] = (x[t] / scale[t]) / np.sqrt(total)  # in this order nothing overflows


@kernel
def sums(x: Floats, scale: Floats, step: Floats, size: Index) -> tuple[float, float]:
    """Sum of (x/scale)^2, and the score's change per unit of step."""
    norm, sensitivity = 0.0, 0.0
    for t in range(size):
        ratio = x[t] / scale[t]
        norm += ratio * ratio
        sensitivity += x[t] * step[t]
    return norm, sensitivity


@kernel
def update(
    norms: NDArray[np.float64], totals: NDArray[np.float64], which: int, rule: Rule,
    x: Floats, weight: Floats, gradient: Floats, scale: Floats, step: Floats, size: Index,
    score: float, label: float, importance: float, slope: float,
) -> None:  # fmt: skip
    """Learn weight[:size] and gradient[:size], gathered from one predictor (which: 0 apple, 1 linear)."""
    accumulate(x, scale, gradient, step, size, np.float32(importance * slope))
    norm, sensitivity = sums(x, scale, step, size)
    norms[which] += importance * norm
    totals[which] += importance
    normaliser = math.sqrt(totals[which] / norms[which])
    by = invariant_step(rule.logistic, score, label, rule.rate * importance, sensitivity * normaliser)
    change = np.float32(by * normaliser)
    for t in range(size):
        weight[t] += change * step[t]


@kernel
def widen(owner: Record, size: np.float32) -> None:
    """A feature grew beyond its scale: keep weight * scale as it was, so that scores keep theirs."""
    if size > owner["scale"]:
        if owner["scale"] > 0.0:
            ratio = owner["scale"] / size
            owner["weight"] *= ratio
            owner["linear_weight"] *= ratio
        owner["scale"] = size


@kernel
def learn_apple(
    slots: Slots, norms: NDArray[np.float64], totals: NDArray[np.float64], rule: Rule,
    slot: Words, x: Floats, weight: Floats, gradient: Floats, scale: Floats, step: Floats, found: Index,
    score: float, label: float, importance: float,
) -> None:  # fmt: skip
    """Update all features of the example."""
    slope = squared_slope(rule.logistic, score, label)
    if slope <= 0.0:
        return
    for t in range(found):
        owner = slots[slot[t]]
        widen(owner, abs(x[t]))
        weight[t], gradient[t], scale[t] = owner["weight"], owner["gradient"], owner["scale"]
    update(norms, totals, 0, rule, x, weight, gradient, scale, step, found, score, label, importance, slope)
    for t in range(found):
        owner = slots[slot[t]]
        owner["weight"] = weight[t]
        owner["gradient"] = gradient[t]


@kernel
def learn_linear(
    slots: Slots, norms: NDArray[np.float64], totals: NDArray[np.float64], rule: Rule,
    slot: Words, x: Floats, weight: Floats, gradient: Floats, scale: Floats, step: Floats,
    base: Index, old: Index, found: Index,
    score: float, label: float, importance: float,
) -> None:  # fmt: skip
    """Update the linear predictor: features [0, base), and the newcomers [old, found) of degree 1.

    They are moved together in `slot` and `x`, so this comes after `learn_apple`.
    """
    slope = squared_slope(rule.logistic, score, label)
    if slope <= 0.0:
        return
    for t in range(old, found):
        if slots[slot[t]]["degree"] == 1:
            slot[base], x[base] = slot[t], x[t]
            base += U1
    for t in range(base):
        owner = slots[slot[t]]
        weight[t], gradient[t] = owner["linear_weight"], owner["linear_gradient"]
        scale[t] = max(owner["scale"], abs(x[t]))  # the scale itself is apple's, who learned first
    update(norms, totals, 1, rule, x, weight, gradient, scale, step, base, score, label, importance, slope)
    for t in range(base):
        owner = slots[slot[t]]
        owner["linear_weight"] = weight[t]
        owner["linear_gradient"] = gradient[t]
