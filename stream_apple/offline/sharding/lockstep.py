"""Learners side by side, each with a stream of its own, that wait for each other at the end of every round.

The result is that of workers that merge models with `patience = "forever"`, but without Kafka. A round is `every`
epochs. A learner stops before its first example of a later round, after it has ended its epoch. Once all have stopped
or have no more examples, those that wait at the end of the earliest round are merged in ascending order, and go on with
the merged model.

- A stream that skips rounds takes part only in the merges of rounds at whose end it stops; there it waits.
- A stream that has ended takes part in no more merges, and the others don't wait for it. (A worker would wait, as more
  records might come.)
- If a stream's clock is put back, a round may come twice, and is merged twice. (A worker merges a round once.)
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.errors import ModelError
from stream_apple.learners.merging_port import Parents, check_mergeable
from stream_apple.learners.port import Learner, LearnerOptions
from stream_apple.learners.scores import Scores
from stream_apple.learners.systems import merging_of, new_learner, warm_up_learning


class Exchange(NamedTuple):
    """How models are merged: which new parents stay, and how many epochs a round has."""

    parents: Parents = "votes"
    every: int = 1


class ShardStream(NamedTuple):
    """The examples of one learner, n rows, in the order learned.

    epochs  int64[n]: an epoch ends where the number rises; where it falls, nothing does
    """

    batch: Batch
    epochs: NDArray[np.int64]


class Shard:
    """One learner and its stream.

    scores  of its examples, NaN for those not learned yet
    held    the round at whose end it waits; None if it does not wait
    """

    def __init__(self, number: int, learner: Learner, stream: ShardStream) -> None:
        self.learner = learner
        self.stream = stream
        self.scores = Scores.empty(len(stream.batch.labels))
        self.held: int | None = None
        self._number = number
        self._at = 0
        self._epoch = -1
        self._changes = [*(np.flatnonzero(np.diff(stream.epochs)) + 1).tolist(), len(stream.epochs)]
        self._change = 0

    def learn_on(self, every: int, *, nominate: bool) -> None:
        """Learn up to the end of the round, or of the stream; `every` is 0 if there are no rounds.

        ModelError names the shard.
        """
        while self.held is None and self._at < len(self.stream.epochs):
            epoch = int(self.stream.epochs[self._at])
            ended, self._epoch = self._epoch, epoch
            if -1 < ended < epoch:
                self.learner.end_epoch(nominate=nominate)
                if every and ended // every < epoch // every:
                    self.held = ended // every
                    return
            stop = self._changes[self._change]
            self._learn(self._at, stop)
            self._at, self._change = stop, self._change + 1

    def _learn(self, start: int, stop: int) -> None:
        try:
            self.learner.learn(self.stream.batch, start, stop, self.scores)
        except ModelError as error:
            raise ModelError(f"shard {self._number}: {error}", error.row) from error


class Lockstep:
    """All learners with their streams, and the merges between them.

    rosters  who was in each merge, in the order of merges: (round, numbers of shards)
    """

    def __init__(self, options: LearnerOptions, streams: Sequence[ShardStream], exchange: Exchange | None) -> None:
        """Make the learners; ConfigurationError if models of these options can't be merged and `exchange` is given."""
        if exchange is not None:
            check_mergeable(options)
        self.options = options
        self.exchange = exchange
        self.shards = [Shard(number, new_learner(options), stream) for number, stream in enumerate(streams)]
        self.rosters: list[tuple[int, tuple[int, ...]]] = []

    def warm_up(self) -> None:
        """Compile everything on throw-away models."""
        warm_up_learning(self.options)
        if self.exchange is not None:
            merging_of(self.options).warm_up_merging(self.options)

    def learn(self) -> None:
        """Learn all of the streams in one pass, with a merge at the end of each round."""
        self._learn_on(0 if self.exchange is None else self.exchange.every)
        while waiting := [shard.held for shard in self.shards if shard.held is not None]:
            self._merge(min(waiting))
            self._learn_on(0 if self.exchange is None else self.exchange.every)

    def _learn_on(self, every: int) -> None:
        for shard in self.shards:
            shard.learn_on(every, nominate=self.exchange is not None)

    def _merge(self, number: int) -> None:
        """Merge the models that wait at the end of this round, and let them go on."""
        if self.exchange is None:
            raise AssertionError("expected an exchange where somebody waits, found none")
        roster = [which for which, shard in enumerate(self.shards) if shard.held == number]
        parents, merging = self.exchange.parents, merging_of(self.options)
        merged = merging.merge([self.shards[which].learner for which in roster], parents=parents).model
        for which in roster:
            shard = self.shards[which]
            merging.adopt(shard.learner, merged)
            shard.held = None
        self.rosters.append((number, tuple(roster)))
