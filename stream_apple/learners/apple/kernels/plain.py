"""One predictor of all features, and the linear one alongside: score an example, then learn from it.

Adaptive polynomial expansion (Agarwal, Beygelzimer, Hsu, Langford, Telgarsky: "Scalable Nonlinear Learning with
Adaptive Polynomial Expansions", NIPS 2014) keeps a set of *parents*. An example's features are the products of
each parent present in it with each base feature present in it, every product once (`expansion.py`). The constant
is the first parent: its products are the base features themselves. At an epoch's end the heaviest monomials become
parents (`parent_selection.py`). In between apple is a linear learner (`update.py`) on a table of monomials
(`table.py`).

A linear predictor learns alongside, in the same slots, from the base features alone: the difference between the
two losses is what the expansion earns. Methods linear, quadratic and cubic differ in which monomials are parents.
"""

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel, part, unlikely
from stream_apple.learners.apple.kernels.admission import admit
from stream_apple.learners.apple.kernels.expansion import expand
from stream_apple.learners.apple.kernels.residuals import add_residuals
from stream_apple.learners.apple.kernels.rows import (
    DONE,
    NOT_FINITE,
    are_finite,
    count_learned,
    is_learned,
    publish_clipped,
    row_features,
)
from stream_apple.learners.apple.kernels.theorem_1 import descend, divide_by_time
from stream_apple.learners.apple.kernels.update import Target, clear_active, gather, learn_apple, learn_linear
from stream_apple.learners.apple.state.model import LearningRule, Model
from stream_apple.learners.apple.state.table import U0, U1, Index, Table
from stream_apple.learners.apple.state.weights import APPLE, LINEAR
from stream_apple.learners.apple.state.work import ActiveFeatures, Work
from stream_apple.learners.scores import Scores


@kernel
def process_plain(model: Model, work: Work, batch: Batch, scores: Scores, start: int, stop: int, learn: bool) -> int:
    """Progressive validation: score each row of [start, stop) in order, then, if `learn`, learn it.

    Writes these rows of `scores`; a loss is NaN without a label. A row without a label, or of weight zero, is only
    scored. Returns DONE; or NOT_FINITE, if a score of a row is not finite, and then stops without learning the row.
    """
    slots, rule, features, given = model.table.slots, model.rule, work.features, work.mixing.scores
    counts = model.scalars.counts
    for row in range(start, stop):
        label, learning, example = batch.labels[row], is_learned(batch, row, learn), row_features(batch, row)
        old, wanted = expand(model, example, learning, work, None)
        given[APPLE], wider = gather(slots, features, old)
        given[LINEAR], base = score_linear(model.table, rule, features, old, given[APPLE])
        if rule.theorem_1_lambda > 0.0:
            divide_by_time(given, counts)
        if not are_finite(given, APPLE + 1):
            clear_active(slots, features, old)
            work.next_row[0] = row
            return NOT_FINITE
        publish_clipped(scores, row, model, given, label, learning)
        if not learning:
            clear_active(slots, features, old)
            continue
        target = Target(given[APPLE], label, batch.weights[row])
        found = admit(model, work, old, wanted)
        count_learned(counts, example, found)
        if unlikely(len(model.table.residuals) > 0):
            add_residuals(model, features, found, target)
        if rule.theorem_1_lambda > 0.0:
            descend(model, features, found, target, given[LINEAR])
            continue
        learn_apple(model, features, U0 if wider else old, found, target)
        if rule.alongside:
            linear = Target(given[LINEAR], label, target.importance)
            learn_linear(model, features, base, old, found, linear)
    work.next_row[0] = stop
    return DONE


@part
def score_linear(
    table: Table, rule: LearningRule, features: ActiveFeatures, found: Index, score: float
) -> tuple[float, Index]:
    """Return the linear predictor's score, and the number of the constant and the base features, which come first."""
    linear, base = np.float64(0.0), U0
    if not rule.alongside:
        return score, base
    while base < found and table.slots[features.slot[base]]["degree"] <= 1:
        linear += table.companions[features.slot[base]]["linear_weight"] * features.x[base]
        base += U1
    return linear, base
