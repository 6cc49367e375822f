"""One predictor of all features, and the linear one alongside: score an example, then learn from it.

Adaptive polynomial expansion (Agarwal, Beygelzimer, Hsu, Langford, Telgarsky: "Scalable Nonlinear Learning with
Adaptive Polynomial Expansions", NIPS 2014) keeps a set of *parents*. An example's features are the products of
each parent present in it with each base feature present in it, every product once (`expansion.py`). The constant
is the first parent: its products are the base features themselves. At an epoch's end the heaviest monomials become
parents (`parent_selection.py`). In between apple is a linear learner (`update.py`) on a table of monomials
(`table.py`).

A linear predictor learns alongside, in the same slots, from the base features alone: the difference between the
two losses is what the expansion earns. Methods linear, quadratic and cubic differ in which monomials are parents.
With method tuples features are tuples of attributes (`tuple_expansion.py`).
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel, part, unlikely
from stream_apple.learners.apple.kernels.ablation import add_ablations
from stream_apple.learners.apple.kernels.admission import admit
from stream_apple.learners.apple.kernels.counts import count_example, take_attributes
from stream_apple.learners.apple.kernels.decay import decayed_scores, settle_if_small
from stream_apple.learners.apple.kernels.expansion import expand
from stream_apple.learners.apple.kernels.naive_bayes import learn_trust, odds_of, starting_score
from stream_apple.learners.apple.kernels.plain_descent import learn_by_plain_descent
from stream_apple.learners.apple.kernels.residuals import add_residuals
from stream_apple.learners.apple.kernels.rows import (
    are_finite,
    count_learned,
    is_learned,
    publish_clipped,
    row_features,
)
from stream_apple.learners.apple.kernels.tuple_expansion import expand_tuples
from stream_apple.learners.apple.kernels.update import Target, clear_active, gather, learn_apple, learn_linear
from stream_apple.learners.apple.state.model import EXAMPLES, Decay, LearningRule, Model, Tuples
from stream_apple.learners.apple.state.table import U0, U1, Index, Slots
from stream_apple.learners.apple.state.weights import APPLE, LINEAR
from stream_apple.learners.apple.state.work import ActiveFeatures, Numbers64, Origins, Work
from stream_apple.learners.scores import Scores


@kernel
def process_plain(
    model: Model, decay: Decay | None, trust: NDArray[np.float64] | None, origins: Origins | None,
    tuples: Tuples | None, work: Work, batch: Batch, scores: Scores, start: int, stop: int, learn: bool,
) -> int:  # fmt: skip
    """Progressive validation: score each row of [start, stop) in order, then, if `learn`, learn it.

    `decay`, `trust` (scores start from naive Bayes), `origins` (examples are counted by label) and `tuples` are None
    in a model without them; then nothing is compiled for them.

    Writes these rows of `scores`; a loss is NaN without a label. A row without a label, or of weight zero, is only
    scored. Returns -1; or the first row whose score is not finite, at which it stops without learning the row.
    """
    slots, rule, features, mixing = model.table.slots, model.rule, work.features, work.mixing
    counts = model.scalars.counts
    for row in range(start, stop):
        label, learning, example = batch.labels[row], is_learned(batch, row, learn), row_features(batch, row)
        if origins is not None:
            take_attributes(origins, example)
        if tuples is not None:
            old, wanted = expand_tuples(model, example, batch.attributes, learning, work, origins)
        else:
            old, wanted = expand(model, example, learning, work, origins, None)
        mixing[APPLE], wider = gather(slots, features, old)
        mixing[LINEAR], base = score_linear(slots, rule, features, old, mixing[APPLE])
        if unlikely(rule.plain_l2 > 0.0):
            mixing[APPLE] /= counts[EXAMPLES] + 1
            mixing[LINEAR] /= counts[EXAMPLES] + 1
        if decay is not None:
            decayed_scores(model.table, decay, rule.decay, features, (base, old), mixing)
        if trust is not None:  # what is counted does not decay
            odds = odds_of(model, features, old)
            mixing[APPLE] += starting_score(trust, odds)
        if not rule.alongside:
            mixing[LINEAR] = mixing[APPLE]
        if not are_finite(mixing, APPLE + 1):
            clear_active(slots, features, old)
            return row
        raw = mixing[APPLE]
        bounds = publish_clipped(scores, row, model, mixing, label, learning)
        if not learning:
            clear_active(slots, features, old)
            continue
        target = Target(mixing[APPLE], label, batch.weights[row])
        if tuples is not None and len(model.table.ablations) > 0:
            add_ablations(model, features, old, raw, target, bounds)
        found = admit(model, decay, work, old, wanted)
        count_learned(counts, example, found)
        if trust is not None:
            learn_trust(trust, odds, target)
        if origins is not None:
            count_example(model, features, found, target)
        if unlikely(len(model.table.residuals) > 0):
            add_residuals(model, features, found, target)
        if unlikely(rule.plain_l2 > 0.0):
            learn_by_plain_descent(model, features, found, target, mixing[LINEAR])
            continue
        learn_by_adaptive_descent(model, decay, features, (base, old, found), wider, mixing, target)
    return -1


@part
def learn_by_adaptive_descent(
    model: Model, decay: Decay | None, features: ActiveFeatures, ends: tuple[Index, Index, Index],
    wider: bool, mixing: Numbers64, target: Target,
) -> None:  # fmt: skip
    """Update both predictors, each by its own score, with the adaptive, normalised, invariant step of `update.py`.

    ends  the ends of the constant and base features, of the features that had slots, and of the newcomers after them
    """
    base, old, found = ends
    learn_apple(model, decay, features, U0 if wider else old, found, target)
    if model.rule.alongside:
        linear = Target(mixing[LINEAR], target.label, target.importance)
        learn_linear(model, decay, features, base, old, found, linear)
    if decay is not None:
        settle_if_small(model.table, decay, model.rule.decay)


@part
def score_linear(
    slots: Slots, rule: LearningRule, features: ActiveFeatures, found: Index, score: float
) -> tuple[float, Index]:
    """Return the linear predictor's score, and the number of the constant and the base features, which come first."""
    linear, base = np.float64(0.0), U0
    if not rule.alongside:
        return score, base
    while base < found and slots[features.slot[base]]["degree"] <= 1:
        linear += slots[features.slot[base]]["linear_weight"] * features.x[base]
        base += U1
    return linear, base
