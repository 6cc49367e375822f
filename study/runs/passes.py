"""Several learners, a shard of the examples each, that make several passes and become one model after each of them.

Agarwal et al. 2014, section 3.2: in the first pass each shard grows by itself; then all have the parents of all, and
weights are averaged after every pass. No feature is added later.
"""

import itertools
import time
from typing import NamedTuple

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.merging.merge import adopt, merge, warm_up_merging
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores
from stream_apple.learners.systems import warm_up_learning
from stream_apple.offline.binary_measures import binary_measures
from stream_apple.offline.evaluation import split
from stream_apple.offline.schedule import Schedule, epoch_ends


class PassesMeasures(NamedTuple):
    """What several passes showed.

    test_auc  of the merged model; None if the test part has a single label
    seconds   of learning, merging, and scoring, of all shards one after the other
    features  the mean number of features of an example in the last pass; None without examples
    """

    test_auc: float | None
    seconds: float
    features: float | None


def evaluate_in_passes(
    batch: Batch, options: Options, schedule: Schedule, shards: int, passes: int
) -> tuple[PassesMeasures, list[Learner]]:
    """Learn the first part of the batch in so many passes, then score the rest; return the shards' learners as well.

    Example i, in the order of the schedule, is learned by shard i mod `shards`. Labels are -1 and 1, and the loss is
    logistic.
    """
    trained, tested = split(batch, schedule)
    count = len(trained.labels)
    rows = [np.arange(shard, count, shards) for shard in range(shards)]
    parts = [trained.select(own) for own in rows]
    # A shard's epochs end where those of one learner would, which has all of the examples.
    ends = [np.unique(np.searchsorted(own, epoch_ends(count, schedule))).tolist() for own in rows]
    learners = [Learner(options) for _ in parts]
    warm_up_learning(options)
    warm_up_merging(options)

    started = time.perf_counter()
    features: float | None = None
    for number in range(passes):
        features = _one_pass(learners, parts, None if number else ends)
        merged = merge(learners, parents="union").model
        for learner in learners:
            adopt(learner, merged)
    log_odds = learners[0].score(tested).predictions
    seconds = time.perf_counter() - started

    auc = binary_measures(tested.labels, tested.weights, 1.0 / (1.0 + np.exp(-log_odds)), 1.0).auc
    return PassesMeasures(auc, seconds, features), learners


def _one_pass(learners: list[Learner], parts: list[Batch], ends: list[list[int]] | None) -> float | None:
    """Learn each part once; return the mean number of features of an example in this pass.

    ends  the rows of each part before which epochs end; None: no epoch ends, and nothing grows
    """
    before = _features_seen(learners)
    for number, (learner, part) in enumerate(zip(learners, parts, strict=True)):
        count = len(part.labels)
        within = [] if ends is None else [end for end in ends[number] if 0 < end < count]
        for start, stop in itertools.pairwise([0, *within, count]):
            learner.learn(part, start, stop, Scores.empty(count))
            if stop < count:
                learner.end_epoch(nominate=True)
    examples = sum(len(part.labels) for part in parts)
    return (_features_seen(learners) - before) / examples if examples else None


def _features_seen(learners: list[Learner]) -> float:
    return sum(learner.features_per_example * learner.examples for learner in learners if learner.examples)
