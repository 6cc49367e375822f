"""The kernel of real-valued and binary labels: score an example by all predictors, then let each learn from it.

Adaptive polynomial expansion (Agarwal, Beygelzimer, Hsu, Langford, Telgarsky: "Scalable Nonlinear Learning with
Adaptive Polynomial Expansions", NIPS 2014) keeps a set of *parents*. An example's features are the products of
each parent present in it with each base feature present in it, every product once (`expansion.py`). The constant
is the first parent: its products are the base features themselves. At an epoch's end the heaviest monomials become
parents (`parent_selection.py`). In between apple is a linear learner (`update.py`) on a table of monomials
(`table.py`).

A linear predictor learns alongside, in the same slots, from the base features alone: the difference between the
two losses is what the expansion earns. Methods linear, quadratic and cubic differ in which monomials are parents.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel, unlikely
from stream_apple.learners.apple.kernels.admission import admit
from stream_apple.learners.apple.kernels.drift import has_risen
from stream_apple.learners.apple.kernels.expansion import expand
from stream_apple.learners.apple.kernels.mixture import (
    blend,
    constant_score,
    count_label,
    keep_early,
    learn_mixture,
    take_early,
    temper,
)
from stream_apple.learners.apple.kernels.residuals import add_residuals
from stream_apple.learners.apple.kernels.rows import (
    DONE,
    LOSSES_ROSE,
    NOT_FINITE,
    are_finite,
    clip_both,
    count_learned,
    is_learned,
    look_ahead,
    publish,
    row_features,
)
from stream_apple.learners.apple.kernels.theorem_1 import descend, divide_by_time
from stream_apple.learners.apple.kernels.update import Target, clear_active, gather, learn_expanded, learn_linear
from stream_apple.learners.apple.state.model import EXAMPLES, Model
from stream_apple.learners.apple.state.recent import keep_recent
from stream_apple.learners.apple.state.table import U0
from stream_apple.learners.apple.state.weights import LINEAR, PREDICTORS
from stream_apple.learners.apple.state.work import Work
from stream_apple.learners.loss_functions import agreement_of, bounds_of, include_label
from stream_apple.learners.scores import CYCLE, EARLY_CONSTANT, EARLY_LEARNED, EARLY_STRIDE, Scores


@kernel
def process(
    model: Model, work: Work, batch: Batch, early: NDArray[np.float32], scores: Scores,
    start: int, stop: int, learn: bool,
) -> int:  # fmt: skip
    """Progressive validation: score each row of [start, stop) in order, then, if `learn`, learn it.

    Writes these rows of `scores`; a loss is NaN without a label. A row without a label, or of weight zero, is only
    scored.

    early  float32[rows, EARLY]: what `scores.early` held when the row's prediction was asked for, before its label
           came. A mixture learns from these scores; from the present ones where they are NaN, or no other example was
           learned since; nothing where they are infinite. With no rows, it learns from the present scores.

    Returns DONE; or NOT_FINITE, if a score of a row is not finite, and then stops without learning the row; or
    LOSSES_ROSE: then the caller has to restart the model before the next row.
    """
    slots, rule, features, mixing = model.table.slots, model.rule, work.features, work.mixing
    labels, counts, mixture, given = model.scalars.labels, model.scalars.counts, model.mixture, work.mixing.scores
    by_theorem_1 = rule.theorem_1_lambda > 0.0
    for row in range(start, stop):
        label, learning, example = batch.labels[row], is_learned(batch, row, learn), row_features(batch, row)
        old, wanted = expand(model, example, learning, work, None)
        base, wider = gather(model, features, old, given)
        if by_theorem_1:
            divide_by_time(given, counts)
        if not are_finite(given, PREDICTORS):
            clear_active(slots, features, old)
            work.next_row[0] = row
            return NOT_FINITE
        if learning:
            share = include_label(rule.loss, labels, label)
            if rule.mixed and share < 1.0:
                temper(mixture, share * share)
        low, high = bounds_of(rule.loss, labels)
        constant, delay = 0.0, 0.0
        if rule.mixed:
            score = blend(mixture, mixing, rule.loss, low, high)
            constant = constant_score(mixture, rule.loss, low, high)
            if len(scores.early):
                keep_early(scores.early[row], mixing, constant, score, counts[EXAMPLES])
        else:
            score = clip_both(given, low, high)
        publish(scores, row, rule, score, given, label)
        if not learning:
            clear_active(slots, features, old)
            continue
        target = Target(score, label, batch.weights[row])
        found = admit(model, work, old, wanted)
        count_learned(counts, example, found)
        if unlikely(len(model.table.residuals) > 0):
            add_residuals(model, features, found, target)
        if unlikely(by_theorem_1):
            descend(model, features, found, target, given[LINEAR])
            continue
        if rule.mixed:
            look_ahead(model.table, batch, row, stop)
            keep_recent(model.recent, example, label, batch.weights[row])
        learn_expanded(model, features, U0 if wider else old, found, given, target)
        if rule.alongside:
            learn_linear(model, features, base, old, found, given, target)
        if not rule.mixed:
            continue
        sampled = len(early) == 0 or not math.isinf(early[row, LINEAR])
        if sampled and len(early) and not math.isnan(early[row, LINEAR]):
            since = (counts[EXAMPLES] - np.int64(early[row, EARLY_LEARNED])) % CYCLE
            if since > 1:  # counts[EXAMPLES] includes this example
                take_early(mixture, mixing, rule.loss, early[row])
                constant, delay = np.float64(early[row, EARLY_CONSTANT]), (since - 1) / early[row, EARLY_STRIDE]
        if sampled:
            learn_mixture(mixture, mixing, constant, rule.loss, target, (low, high), delay)
        count_label(mixture, rule.loss, target)
        held, expected = agreement_of(rule.loss, scores.losses[row], score, label)
        if rule.restarts and has_risen(model.watch, scores.losses[row], held, expected):
            work.next_row[0] = row + 1
            return LOSSES_ROSE
    work.next_row[0] = stop
    return DONE
