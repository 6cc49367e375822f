"""Epochs like a worker's: spans of event time, by the same clock, from the timestamps of the examples.

A worker makes dead letters of examples whose time is too far ahead; here they are left out, and counted.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.event_time import NO_EPOCH, EpochClock


class Dealt(NamedTuple):
    """Which shard learns each of `n` examples, and in which epoch, as if shards were partitions of a topic.

    rows       int64[k], the examples that are scored and learned, ascending
    far_ahead  int64[n - k], the others, ascending: their times lie too far ahead of those before them
    shards     int64[k], the shard of each of `rows`
    epochs     int64[k], the epoch of each of `rows`, by the clock of its shard
    late       how many of `rows` are learned in a later epoch than their own, which had ended
    """

    rows: NDArray[np.int64]
    far_ahead: NDArray[np.int64]
    shards: NDArray[np.int64]
    epochs: NDArray[np.int64]
    late: int

    @property
    def ends(self) -> tuple[int, ...]:
        """The numbers of `rows` after which epochs end, ascending, if there is one shard; the last epoch has no end."""
        return tuple((np.flatnonzero(np.diff(self.epochs) > 0) + 1).tolist())

    @property
    def most_epochs(self) -> int:
        """How many epochs the shard with most of them has."""
        ends = [np.count_nonzero(np.diff(self.epochs[self.shards == shard]) > 0) for shard in np.unique(self.shards)]
        return int(max(ends, default=0)) + 1


def deal_by_time(timestamps_ms: NDArray[np.int64], epoch_length_ms: int, max_ahead_ms: int, shards: int = 1) -> Dealt:
    """Deal examples with these times, int64[n], each > 0: example i goes to shard i mod `shards`."""
    epochs, late = np.empty(len(timestamps_ms), np.int64), 0
    for shard in range(shards):
        clock = EpochClock(epoch_length_ms, max_ahead_ms)
        epochs[shard::shards] = clock.advance(np.ascontiguousarray(timestamps_ms[shard::shards]))
        late += clock.late
    timely = epochs != NO_EPOCH
    rows = np.flatnonzero(timely)
    return Dealt(rows, np.flatnonzero(~timely), rows % shards, epochs[rows], late)
