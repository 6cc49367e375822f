"""What is minimised: value, slope, step and bounds of the squared loss and of the logistic one, of one score.

The softmax loss, of one score for each class, has its own in `multiclass/class_update.py`; bounds are the same.
"""

import math

from stream_apple.core.jit import kernel, part, routine
from stream_apple.core.learner.state.model import Bounds, LearningRule
from stream_apple.core.learner.state.work import Numbers64

LOG_ODDS_BOUND = 50.0  # logistic scores are clipped to +-50 (as in Vowpal Wabbit)
SATURATED_MARGIN = 24 * math.log(2)  # above it the logistic loss is 0 in float32: no update (as in Vowpal Wabbit)


@routine
def loss_of(logistic: bool, score: float, label: float) -> float:  # noqa: FBT001
    """Return the loss. Squared: (score - label)^2. Logistic: log(1 + exp(-score * label)), label -1 or 1."""
    if not logistic:
        miss = score - label
        return miss * miss
    margin = score * label
    return math.log1p(math.exp(-abs(margin))) - min(margin, 0.0)


@kernel
def write_losses(logistic: bool, scores: Numbers64, labels: Numbers64, losses: Numbers64) -> None:  # noqa: FBT001
    """Write the loss of each score, float64[n] each; NaN without a label."""
    for k in range(len(scores)):
        losses[k] = loss_of(logistic, scores[k], labels[k])


@routine
def slope_of(logistic: bool, score: float, label: float) -> float:  # noqa: FBT001
    """Return the loss's derivative by the score."""
    return -label / (1.0 + math.exp(score * label)) if logistic else 2.0 * (score - label)


@routine
def squared_slope(logistic: bool, score: float, label: float) -> float:  # noqa: FBT001
    """Return the square of the loss's derivative by the score; 0 above SATURATED_MARGIN."""
    if not logistic:
        miss = score - label
        return 4.0 * (miss * miss)
    margin = score * label
    slope = 1.0 / (1.0 + math.exp(margin))
    return 0.0 if margin > SATURATED_MARGIN else slope * slope


@routine
def invariant_step(logistic: bool, score: float, label: float, rate: float, sensitivity: float) -> float:  # noqa: FBT001
    """Return the length of the step along the gradient: the limit of many small steps whose rates sum to `rate`.

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


@part
def include_label(bounds: Bounds, label: float) -> float:
    """Extend the bounds of scores to include the label; return the old width over the new one, at most 1.

    With the squared loss bounds include the label before the score is clipped, as in Vowpal Wabbit.
    """
    before = bounds[1] - bounds[0]
    bounds[0] = min(bounds[0], label)
    bounds[1] = max(bounds[1], label)
    after = bounds[1] - bounds[0]
    return before / after if after > before else 1.0


@part
def bounds_of(rule: LearningRule, labels: Bounds) -> tuple[float, float]:
    """Return the lowest and the highest score: scores are clipped to them."""
    return (-LOG_ODDS_BOUND, LOG_ODDS_BOUND) if rule.logistic else (labels[0], labels[1])
