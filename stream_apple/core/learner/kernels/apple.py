"""Apple: score an example, then learn from it, with features that are products of parents and base features.

Adaptive polynomial expansion (Agarwal, Beygelzimer, Hsu, Langford, Telgarsky: "Scalable Nonlinear Learning with
Adaptive Polynomial Expansions", NIPS 2014) keeps a set of *parents*. An example's features are the products of
each parent present in it with each base feature present in it, every product once (`expansion.py`). The constant
is the first parent: its children are the base features themselves. At an epoch's end the heaviest monomials become
parents (`parent_selection.py`). In between it is a linear learner (`update.py`) on a table of monomials (`table.py`).

A linear predictor learns alongside, in the same slots, from the base features alone: the difference between the
two losses is what the expansion earns.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel, part, prefetch, unlikely
from stream_apple.core.learner.kernels.ablation import add_ablations
from stream_apple.core.learner.kernels.admission import admit
from stream_apple.core.learner.kernels.counts import count_example, take_attributes
from stream_apple.core.learner.kernels.decay import decayed_scores, settle_if_small
from stream_apple.core.learner.kernels.expansion import expand
from stream_apple.core.learner.kernels.mixed_update import gather_mixed, learn_base, learn_expanded
from stream_apple.core.learner.kernels.mixture import APPLE, LINEAR, PREDICTORS, blend, learn_mixture, temper
from stream_apple.core.learner.kernels.naive_bayes import learn_trust, odds_of, start_expanded, starting_score
from stream_apple.core.learner.kernels.plain_descent import learn_plainly
from stream_apple.core.learner.kernels.residuals import add_residuals
from stream_apple.core.learner.kernels.shared_expansion import expand_shared, score_shared, take_shares
from stream_apple.core.learner.kernels.tuple_expansion import expand_tuples
from stream_apple.core.learner.kernels.update import Target, gather, learn_apple, learn_linear, leave, loss_of
from stream_apple.core.learner.state.model import EXAMPLES, FEATURES, NONZEROS, LearningRule, Model
from stream_apple.core.learner.state.recent import keep_recent
from stream_apple.core.learner.state.table import U0, U1, U8, Index, Slots
from stream_apple.core.learner.state.work import ActiveFeatures, BaseFeatures, Numbers64, Work, example_features

LOG_ODDS_BOUND = 50.0  # logistic scores are clipped to +-50 (as in Vowpal Wabbit)
AHEAD = np.uint64(512)  # base features: learning as many takes longer than memory


class Scores(NamedTuple):
    """What `learn` writes, one element a row of the batch.

    predictions  float64[n]  the score given before learning: the expected label (squared loss) or the log-odds of
                             label 1 (logistic loss)
    losses       float64[n]  loss of the prediction, not weighted; NaN without a label
    apple        float64[n]  the score of all features: the prediction itself, unless predictors are mixed
    linear       float64[n]  the linear predictor's score

    With the softmax loss (`multiclass/`) predictions are numbers of classes: the most probable one by what is
    published, by all features, by the linear predictor. Then there are, else NaN:

    probabilities                float64[n]  that of the prediction
    apple_losses, linear_losses  float64[n]  as losses
    """

    predictions: NDArray[np.float64]
    losses: NDArray[np.float64]
    apple: NDArray[np.float64]
    linear: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    apple_losses: NDArray[np.float64]
    linear_losses: NDArray[np.float64]

    @classmethod
    def empty(cls, size: int) -> "Scores":
        """Room for `size` rows."""
        return cls(*(np.full(size, np.nan) for _ in cls._fields))


@kernel
def process(
    model: Model, work: Work, batch: Batch, scores: Scores, start: int, stop: int, learn: bool,  # noqa: FBT001
) -> int:  # fmt: skip
    """Progressive validation: score each row of [start, stop), then (if `learn`) learn it; in order.

    What a rule asks for that few do is `unlikely`, so that the others' registers are not kept free for it.

    Writes these rows of `scores`; a loss is NaN without a label. A row without label, or of weight zero, is scored
    only. Returns -1; or the row whose score is not finite, which was not learned.
    """
    slots, rule, features, mixing = model.table.slots, model.rule, work.features, work.mixing
    bounds, counts = model.scalars.labels, model.scalars.counts
    for row in range(start, stop):
        label, importance = batch.labels[row], batch.weights[row]
        learning = learn and importance > 0.0 and not math.isnan(label)
        first, end = np.uint64(batch.indptr[row]), np.uint64(batch.indptr[row + 1])
        example = example_features(batch.keys, batch.values, batch.roles, first, end)
        fetch_ahead(example)
        if unlikely(rule.kept.counts):
            take_attributes(work, example)
        odds, shared = 0.0, U0
        if unlikely(rule.tuples.order > 0):
            old, wanted = expand_tuples(model, example, batch.attributes, learning, work)
        elif unlikely(rule.expansion.hash_bits > 0):
            old, shared = expand_shared(model, example, learning, work)
            wanted = U0
        else:
            old, wanted = expand(model, example, learning, work)
        if rule.mixed:
            base, wider = gather_mixed(model, features, old, mixing)
        elif unlikely(bool(shared > U0)):
            mixing[APPLE], wider = gather(slots, features, old)
            mixing[LINEAR], base = score_shared(model, work, shared, mixing[APPLE])
        else:
            mixing[APPLE], wider = gather(slots, features, old)
            mixing[LINEAR], base = score_linear(slots, rule, features, old, mixing[APPLE])
            if unlikely(rule.plain_l2 > 0.0):
                mixing[APPLE] /= counts[EXAMPLES] + 1
                mixing[LINEAR] /= counts[EXAMPLES] + 1
        if unlikely(rule.decay.active):
            decayed_scores(model.table, model.decay, rule.decay, features, (base, old), mixing)
        if unlikely(rule.warm_start > 0):  # what is counted does not decay
            odds = odds_of(model, features, old)
            offset = starting_score(model, odds)
            if rule.mixed:
                start_expanded(mixing, offset)
            else:
                mixing[APPLE] += offset
        if not rule.alongside:
            mixing[LINEAR] = mixing[APPLE]
        if not are_finite(mixing, PREDICTORS if rule.mixed else APPLE + 1):
            leave(slots, features, old)
            return row
        if learning and not rule.logistic:  # before clipping, as in Vowpal Wabbit
            before = bounds[1] - bounds[0]
            bounds[0] = min(bounds[0], label)
            bounds[1] = max(bounds[1], label)
            if rule.mixed and bounds[1] - bounds[0] > before:
                ratio = before / (bounds[1] - bounds[0])
                temper(model.mixture, ratio * ratio)
        low, high = (-LOG_ODDS_BOUND, LOG_ODDS_BOUND) if rule.logistic else (bounds[0], bounds[1])
        raw = mixing[APPLE]
        if rule.mixed:
            score = blend(model.mixture, mixing, rule.logistic, low, high)
        else:
            mixing[APPLE] = score = min(max(raw, low), high)
            mixing[LINEAR] = min(max(mixing[LINEAR], low), high)
        scores.predictions[row], scores.apple[row], scores.linear[row] = score, mixing[APPLE], mixing[LINEAR]
        scores.losses[row] = math.nan if math.isnan(label) else loss_of(rule.logistic, score, label)
        if not learning:
            leave(slots, features, old)
            continue
        if unlikely(rule.tuples.ablating):
            target = Target(score, label, importance)
            add_ablations(model, features, old, raw, target, (low, high))
        found = admit(model, work, old, wanted)
        counts[EXAMPLES] += 1
        counts[NONZEROS] += np.int64(example.stop - example.first)
        counts[FEATURES] += np.int64(found)
        target = Target(score, label, importance)
        if unlikely(rule.warm_start > 0):
            learn_trust(model, odds, target)
        if unlikely(rule.kept.counts):
            count_example(model, features, found, target)
        if rule.mixed:
            keep_recent(model.recent, example)
            learn_mixture(model.mixture, mixing, rule.logistic, target, high - low)
            learn_expanded(model, features, (base, old, found), wider, mixing, target)
            learn_base(model, features, base, old, found, mixing, target)
            if unlikely(rule.decay.active):
                settle_if_small(model.table, model.decay, rule.decay)
            continue
        if unlikely(rule.kept.residuals):
            add_residuals(model, features, found, target)
        if unlikely(rule.plain_l2 > 0.0):
            learn_plainly(model, features, found, target, mixing[LINEAR])
            continue
        learn_apple(model, features, U0 if wider else old, found, target)
        if rule.alongside:
            if unlikely(bool(shared > U0)):
                take_shares(model, work, base)
            learn_linear(model, features, base, old, found, Target(mixing[LINEAR], label, importance))
        if unlikely(rule.decay.active):
            settle_if_small(model.table, model.decay, rule.decay)
    return -1


@part
def are_finite(scores: Numbers64, count: int) -> bool:
    """Whether the first `count` of them are."""
    finite = True
    for k in range(count):
        finite &= math.isfinite(scores[k])
    return finite


@part
def fetch_ahead(example: BaseFeatures) -> None:
    """Ask for the part of the batch that is AHEAD of the example."""
    for f in range(example.first, example.stop, U8):  # keys in a cache line
        prefetch(example.keys, f + AHEAD)
        prefetch(example.values, f + AHEAD)


@part
def score_linear(
    slots: Slots, rule: LearningRule, features: ActiveFeatures, found: Index, score: float
) -> tuple[float, Index]:
    """The linear predictor's score, from the constant and the base features, which come first; and their number."""
    linear, base = np.float64(0.0), U0
    if not rule.alongside:
        return score, base
    while base < found and slots[features.slot[base]]["degree"] <= 1:
        linear += slots[features.slot[base]]["linear_weight"] * features.x[base]
        base += U1
    return linear, base
