"""The kernel of a mixture: six predictors score an example, their mixture is published, and each of them learns.

`mixture.py` says what the predictors are and how they are mixed; `mixed_update.py` updates them.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.learners.apple.kernels.admission import admit
from stream_apple.learners.apple.kernels.drift import has_risen
from stream_apple.learners.apple.kernels.expansion import expand
from stream_apple.learners.apple.kernels.mixed_update import gather_mixed, learn_base, learn_expanded
from stream_apple.learners.apple.kernels.mixture import (
    blend,
    constant_score,
    count_label,
    keep_early,
    learn_mixture,
    take_early,
    temper,
)
from stream_apple.learners.apple.kernels.rows import (
    DONE,
    LOSSES_ROSE,
    NOT_FINITE,
    are_finite,
    count_learned,
    is_learned,
    look_ahead,
    publish,
    row_features,
)
from stream_apple.learners.apple.kernels.update import Target, clear_active
from stream_apple.learners.apple.state.model import EXAMPLES, Model
from stream_apple.learners.apple.state.recent import keep_recent
from stream_apple.learners.apple.state.table import U0
from stream_apple.learners.apple.state.weights import LINEAR, PREDICTORS
from stream_apple.learners.apple.state.work import Work
from stream_apple.learners.loss_functions import agreement_of, bounds_of, include_label
from stream_apple.learners.scores import CYCLE, EARLY_CONSTANT, EARLY_LEARNED, EARLY_STRIDE, Scores


@kernel
def process_mixed(
    model: Model, work: Work, batch: Batch, early: NDArray[np.float32], scores: Scores,
    start: int, stop: int, learn: bool,
) -> int:  # fmt: skip
    """Score each row of [start, stop) in order, then, if `learn`, learn it, as `process_plain` does.

    early  float32[rows, EARLY]: what `scores.early` held when the row's prediction was asked for, before its label
           came. The mixture learns from these scores; from the present ones where they are NaN, or no other example
           was learned since; nothing where they are infinite. With no rows, it learns from the present scores.

    Returns what `process_plain` does, or LOSSES_ROSE: then the caller has to restart the model before the next row.
    """
    slots, rule, features, mixing = model.table.slots, model.rule, work.features, work.mixing
    labels, counts, mixture = model.scalars.labels, model.scalars.counts, model.mixture
    for row in range(start, stop):
        label, learning, example = batch.labels[row], is_learned(batch, row, learn), row_features(batch, row)
        old, wanted = expand(model, example, learning, work, None)
        base, wider = gather_mixed(model, features, old, mixing.scores)
        if not are_finite(mixing.scores, PREDICTORS):
            clear_active(slots, features, old)
            work.next_row[0] = row
            return NOT_FINITE
        if learning:
            share = include_label(rule.loss, labels, label)
            if share < 1.0:
                temper(mixture, share * share)
        low, high = bounds_of(rule.loss, labels)
        score = blend(mixture, mixing, rule.loss, low, high)
        publish(scores, row, rule, score, mixing.scores, label)
        constant, delay = constant_score(mixture, rule.loss, low, high), 0.0
        if len(scores.early):
            keep_early(scores.early[row], mixing, constant, score, counts[EXAMPLES])
        if not learning:
            clear_active(slots, features, old)
            continue
        target = Target(score, label, batch.weights[row])
        found = admit(model, work, old, wanted)
        count_learned(counts, example, found)
        look_ahead(model.table, batch, row, stop)
        keep_recent(model.recent, example, label, batch.weights[row])
        learn_expanded(model, features, U0 if wider else old, found, mixing.scores, target)
        learn_base(model, features, base, old, found, mixing.scores, target)
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
