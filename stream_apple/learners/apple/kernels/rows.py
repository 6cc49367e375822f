"""What every learning kernel does with a row of a batch: find its features, publish its score, count it."""

import math

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.core.jit import part, prefetch
from stream_apple.learners.apple.kernels.lanes import prefetch_owners
from stream_apple.learners.apple.state.model import EXAMPLES, FEATURES, NONZEROS, Counts, LearningRule
from stream_apple.learners.apple.state.table import U8, Index, Table
from stream_apple.learners.apple.state.weights import APPLE, LINEAR
from stream_apple.learners.apple.state.work import BaseFeatures, Numbers64
from stream_apple.learners.loss_functions import (
    clip_score,
    loss_of,
)
from stream_apple.learners.scores import Scores

DONE, NOT_FINITE, LOSSES_ROSE = range(3)
"""What a kernel returns: it has come to the last row; a score of the row `Work.next_row` is not finite, so that it is
not learned; or losses had risen when the row before `Work.next_row` was learned."""
PREFETCH_DISTANCE = np.uint64(512)  # base features: learning so many takes longer than a memory access


@part
def row_features(batch: Batch, row: int) -> BaseFeatures:
    """Return the base features of the row, and prefetch those PREFETCH_DISTANCE further on."""
    first, stop = np.uint64(batch.indptr[row]), np.uint64(batch.indptr[row + 1])
    for f in range(first, stop, U8):  # keys in a cache line
        prefetch(batch.keys, f + PREFETCH_DISTANCE)
        prefetch(batch.values, f + PREFETCH_DISTANCE)
    return BaseFeatures(batch.keys, batch.values, batch.roles, first, stop)


@part
def look_ahead(table: Table, batch: Batch, row: int, stop: int) -> None:
    """Prefetch what the table has of the base features of the next row, if that is before `stop`."""
    if row + 1 < stop:
        first, last = np.uint64(batch.indptr[row + 1]), np.uint64(batch.indptr[row + 2])
        example = BaseFeatures(batch.keys, batch.values, batch.roles, first, last)
        for f in range(first, last, U8):
            prefetch_owners(table, example, f)


@part
def is_learned(batch: Batch, row: int, learn: bool) -> bool:
    """Return whether the row is learned: it has a label, a weight above zero, and `learn` asks for it."""
    return learn and batch.weights[row] > 0.0 and not math.isnan(batch.labels[row])


@part
def are_finite(scores: Numbers64, count: int) -> bool:
    """Return whether the first `count` scores are finite."""
    finite = True
    for k in range(count):
        finite &= math.isfinite(scores[k])
    return finite


@part
def clip_both(given: Numbers64, low: float, high: float) -> float:
    """Clip the scores of apple and of the linear predictor; return apple's."""
    for k in range(APPLE + 1):
        given[k] = clip_score(given[k], low, high)
    return float(given[APPLE])


@part
def publish(scores: Scores, row: int, rule: LearningRule, score: float, given: Numbers64, label: float) -> None:
    """Write the row of `scores`; `given` has the scores of the expanded and of the linear predictor."""
    scores.predictions[row], scores.expanded[row], scores.linear[row] = score, given[APPLE], given[LINEAR]
    scores.losses[row] = math.nan if math.isnan(label) else loss_of(rule.loss, score, label)


@part
def count_learned(counts: Counts, example: BaseFeatures, found: Index) -> None:
    """Count an example that is learned with `found` features."""
    counts[EXAMPLES] += 1
    counts[NONZEROS] += np.int64(example.stop - example.first)
    counts[FEATURES] += np.int64(found)
