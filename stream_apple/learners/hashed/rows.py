"""The loop over examples: score a row, then learn it."""

import math

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.learners.hashed.features import collect_features, release_features
from stream_apple.learners.hashed.table import EXAMPLES, FEATURES, TRUNCATED, HashedModel, HashedWork
from stream_apple.learners.hashed.update import learn_features, score_features
from stream_apple.learners.loss_functions import (
    bounds_of,
    clip_score,
    include_label,
    loss_of,
)
from stream_apple.learners.scores import Scores


@kernel
def process_hashed_rows(
    model: HashedModel, work: HashedWork, batch: Batch, scores: Scores, start: int, stop: int, learn: bool,
) -> int:  # fmt: skip
    """Score each row of [start, stop) in order and write it to `scores`; then, if `learn`, learn it.

    A row without a label, or of weight zero, is only scored. Returns -1; or the first row whose score is not finite,
    at which it stops without changing the model.
    """
    loss, labels, counts = model.rule.loss, model.sums.labels, model.sums.counts
    for row in range(start, stop):
        label, importance = batch.labels[row], batch.weights[row]
        learning = learn and importance > 0.0 and not math.isnan(label)
        found, truncated = collect_features(model, work, batch, row)
        score = score_features(model, work, found)
        if not math.isfinite(score):
            release_features(work, found)
            return row
        if learning:
            include_label(loss, labels, label)
        low, high = bounds_of(loss, labels)
        score = clip_score(score, low, high)
        scores.predictions[row] = score
        scores.expanded[row] = score
        scores.linear[row] = score
        scores.losses[row] = math.nan if math.isnan(label) else loss_of(loss, score, label)
        if learning:
            counts[EXAMPLES] += 1
            counts[FEATURES] += found
            counts[TRUNCATED] += np.int64(truncated)
            learn_features(model, work, found, score, label, importance)
        release_features(work, found)
    return -1
