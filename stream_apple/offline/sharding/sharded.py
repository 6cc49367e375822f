"""One stream dealt to several learners: which shard gets which example, in which epoch, and the measures of the result.

Example i, in the order learned, goes to shard i mod P; the examples of the test part, which follow, are scored by the
shards to which they would go next.
"""

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.port import Learner, LearnerOptions
from stream_apple.learners.progress.progressive_loss import progress_of
from stream_apple.learners.scores import Scores
from stream_apple.offline.evaluation import Learned, Run, parents_of, run_of, split
from stream_apple.offline.event_epochs import Dealt
from stream_apple.offline.schedule import Schedule, epoch_ends
from stream_apple.offline.sharding.lockstep import Exchange, Lockstep, Shard, ShardStream


class Sharding(NamedTuple):
    """How the learners work together.

    shards    how many learners there are
    exchange  how models are merged at the end of each round; None: they are not
    """

    shards: int
    exchange: Exchange | None

    @property
    def models(self) -> int:
        """How many models there are at once: one for each shard, and the merged one."""
        return self.shards + (self.exchange is not None)


class Together(NamedTuple):
    """The result of several learners, and the learners with the rosters of their merges."""

    run: Run
    lockstep: Lockstep


def streams_of(trained: Batch, shards: NDArray[np.int64], epochs: NDArray[np.int64], count: int) -> list[ShardStream]:
    """Return the stream of each of `count` shards; `shards` and `epochs`, int64[n], are those of each example."""
    rows = [np.flatnonzero(shards == shard) for shard in range(count)]
    return [ShardStream(trained.select(of_one), epochs[of_one]) for of_one in rows]


def evaluate_together(
    batch: Batch, options: LearnerOptions, schedule: Schedule, sharding: Sharding, dealt: Dealt | None = None
) -> Together:
    """Learn the first part of the batch, then score the rest, as `evaluate` does with one learner.

    dealt  the shards and epochs of the batch's examples, whose order the schedule then has to keep. None: example i, in
           the order learned, goes to shard i mod P, and epochs end where those of one learner do
    """
    trained, tested = split(batch, schedule)
    size = len(trained.labels)
    if dealt is None:
        shards = np.arange(len(batch.labels)) % sharding.shards
        epochs = np.searchsorted(epoch_ends(size, schedule), np.arange(size), side="right").astype(np.int64)
    else:
        shards, epochs = dealt.shards, dealt.epochs[:size]
    lockstep = Lockstep(options, streams_of(trained, shards[:size], epochs, sharding.shards), sharding.exchange)
    lockstep.warm_up()

    started = time.perf_counter()
    lockstep.learn()
    test_scores = Scores.empty(len(tested.labels))
    for number, shard in enumerate(lockstep.shards):
        own = np.flatnonzero(shards[size:] == number)
        _put(test_scores, own, _scored(shard.learner, tested.select(own)))
    seconds = time.perf_counter() - started

    scores = Scores.empty(size)
    for number, shard in enumerate(lockstep.shards):
        _put(scores, np.flatnonzero(shards[:size] == number), shard.scores)
    progress = progress_of(options)
    progress.add(trained, scores, 0, size)
    parents = max(parents_of(shard.learner) for shard in lockstep.shards)
    learned = Learned(progress, _features(lockstep.shards), parents, seconds)
    run = run_of(options, learned, (trained, scores), (tested, test_scores))
    return Together(run, lockstep)


def _scored(learner: Learner, batch: Batch) -> Scores:
    scores = Scores.empty(len(batch.labels))
    learner.score_rows(batch, 0, len(batch.labels), scores)
    return scores


def _put(whole: Scores, rows: NDArray[np.int64], part: Scores) -> None:
    for column, values in zip(whole[:-1], part[:-1], strict=True):  # nothing is early here
        column[rows] = values


def _features(shards: list[Shard]) -> float | None:
    """Return the mean number of features of an example, over all shards; None without examples."""
    learners = [shard.learner for shard in shards if shard.learner.examples]
    examples = sum(each.examples for each in learners)
    return sum(each.features_per_example * each.examples for each in learners) / examples if examples else None
