"""The kernel of a mixture: six predictors score an example, their mixture is published, and each of them learns.

`mixture.py` says what the predictors are and how they are mixed; `mixed_update.py` updates them.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.learners.apple.kernels.admission import admit
from stream_apple.learners.apple.kernels.counts import count_example, take_attributes
from stream_apple.learners.apple.kernels.decay import decayed_scores, settle_if_small
from stream_apple.learners.apple.kernels.drift import Watch, has_risen
from stream_apple.learners.apple.kernels.expansion import expand
from stream_apple.learners.apple.kernels.mixed_update import gather_mixed, learn_base, learn_expanded
from stream_apple.learners.apple.kernels.mixture import (
    OF_CONSTANT,
    blend,
    constant_score,
    count_label,
    keep_early,
    learn_mixture,
    take_early,
    temper,
)
from stream_apple.learners.apple.kernels.naive_bayes import learn_trust, odds_of, start_expanded, starting_score
from stream_apple.learners.apple.kernels.persistence import follow_latest, learn_persistence, temper_persistence
from stream_apple.learners.apple.kernels.rows import (
    are_finite,
    count_learned,
    is_learned,
    look_ahead,
    publish,
    row_features,
)
from stream_apple.learners.apple.kernels.update import Target, clear_active
from stream_apple.learners.apple.state.model import EXAMPLES, Decay, Model
from stream_apple.learners.apple.state.recent import keep_recent
from stream_apple.learners.apple.state.weights import LINEAR, PREDICTORS
from stream_apple.learners.apple.state.work import Origins, Work
from stream_apple.learners.losses import bounds_of, include_label, loss_of
from stream_apple.learners.scores import CYCLE, EARLY_CONSTANT, EARLY_LEARNED, EARLY_STRIDE, Scores


@kernel
def process_mixed(
    model: Model, decay: Decay | None, trust: NDArray[np.float64] | None, origins: Origins | None,
    watch: Watch | None, work: Work, batch: Batch, early: NDArray[np.float32], scores: Scores,
    start: int, stop: int, learn: bool,
) -> int:  # fmt: skip
    """Score each row of [start, stop) in order, then, if `learn`, learn it, as `process_plain` does.

    early  float32[rows, EARLY]: what `scores.early` held when the row's prediction was asked for, before its label
           came. The mixture learns from these scores; from the present ones where they are NaN, or no other example
           was learned since; nothing where they are infinite. With no rows, it learns from the present scores.
    watch  None where drift is ignored

    Returns what `process_plain` does, or -2 - row if losses had risen when that row was learned: then the caller has to
    restart the model before it learns the next row.
    """
    slots, rule, features, mixing = model.table.slots, model.rule, work.features, work.mixing
    labels, counts = model.scalars.labels, model.scalars.counts
    mixture, persistence = model.mixture, model.persistence
    for row in range(start, stop):
        label, learning, example = batch.labels[row], is_learned(batch, row, learn), row_features(batch, row)
        if origins is not None:
            take_attributes(origins, example)
        old, wanted = expand(model, example, learning, work, origins, None)
        base, wider = gather_mixed(model, features, old, mixing)
        if decay is not None:
            decayed_scores(model.table, decay, rule.decay, features, (base, old), mixing)
        if trust is not None:  # what is counted does not decay
            odds = odds_of(model, features, old)
            start_expanded(rule, mixing, starting_score(trust, odds))
        if not are_finite(mixing, PREDICTORS):
            clear_active(slots, features, old)
            return row
        if learning:
            share = include_label(rule.loss, labels, label)
            if share < 1.0:
                temper(mixture, share * share)
                if len(persistence.share):
                    temper_persistence(persistence, share * share, 1.0)
        low, high = bounds_of(rule.loss, labels)
        score = published = blend(mixture, mixing, rule.loss, low, high)
        following = len(persistence.share) > 0 and mixture.late[OF_CONSTANT] <= 0.0
        if following:
            published = follow_latest(persistence, mixing, rule.loss, score, low, high)
        publish(scores, row, rule, published, mixing, label)
        constant, delay = constant_score(mixture, rule.loss, low, high), 0.0
        if len(scores.early):
            keep_early(scores.early[row], mixing, constant, published, counts[EXAMPLES])
        if not learning:
            clear_active(slots, features, old)
            continue
        target = Target(score, label, batch.weights[row])
        found = admit(model, decay, work, old, wanted)
        count_learned(counts, example, found)
        if trust is not None:
            learn_trust(trust, odds, target)
        if origins is not None:
            count_example(model, features, found, target)
        look_ahead(model.table, batch, row, stop)
        keep_recent(model.recent, example, label, batch.weights[row])
        learn_expanded(model, decay, features, (base, old, found), wider, mixing, target)
        learn_base(model, decay, features, base, old, found, mixing, target)
        sampled = len(early) == 0 or not math.isinf(early[row, LINEAR])
        if sampled and len(early) and not math.isnan(early[row, LINEAR]):
            since = (counts[EXAMPLES] - np.int64(early[row, EARLY_LEARNED])) % CYCLE
            if since > 1:  # counts[EXAMPLES] includes this example
                take_early(mixture, mixing, rule.loss, early[row])
                constant, delay = np.float64(early[row, EARLY_CONSTANT]), (since - 1) / early[row, EARLY_STRIDE]
        heaviest = mixture.heaviest[0]
        if sampled:
            learn_mixture(mixture, mixing, constant, rule.loss, target, (low, high), delay, rule.clipped_stack)
        if following and sampled and mixture.late[OF_CONSTANT] <= 0.0:
            temper_persistence(persistence, heaviest, mixture.heaviest[0])
            heaviest = mixture.heaviest[0]
            learn_persistence(persistence, mixing, rule.loss, target, (low, high), heaviest, rule.clipped_stack)
        count_label(mixture, rule.loss, target)
        if decay is not None:
            settle_if_small(model.table, decay, rule.decay)
        if watch is not None:
            loss = loss_of(rule.loss, score, label) if following else scores.losses[row]
            if has_risen(watch, rule.loss, loss, score, label):
                return -2 - row
    return -1
