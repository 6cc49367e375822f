"""Epochs are spans of event time: a function of the record sequence alone, the same live and in every replay.

The clock of a partition is the highest timestamp accepted so far, and the epoch is `clock // length`. A record
of an earlier epoch is late: it is learned in the current epoch and counted. A record further ahead of the clock
than `max_ahead` is refused, so that one producer with a wrong date can't burn through epochs. A stream that
really paused for longer would be refused for ever, so `JUMP_RECORDS` such records in a row that agree with one
another (within `max_ahead`) are believed: the last of them moves the clock.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel

JUMP_RECORDS = 100
NO_EPOCH = -1
"""In place of an epoch: the record is refused."""

# Layout of EpochClock.state. Before the first record the clock and the epoch are -1.
_WATERMARK, _EPOCH, _LATE, _AHEAD, _AHEAD_LOW, _AHEAD_HIGH = range(6)


class EpochClock:
    """The event time of one partition.

    length_ms     of an epoch, > 0
    max_ahead_ms  how far past the clock a timestamp may lie, > 0
    state         int64[6], all that the clock remembers; a snapshot holds it and a restore writes it
    """

    def __init__(self, length_ms: int, max_ahead_ms: int) -> None:
        self.length_ms = length_ms
        self.max_ahead_ms = max_ahead_ms
        self.state = np.zeros(6, np.int64)
        self.state[[_WATERMARK, _EPOCH]] = -1

    def advance(self, timestamps_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """The epoch that each record is learned in, never decreasing, or NO_EPOCH.

        timestamps_ms  int64[n], each >= 0, in offset order
        """
        epochs = np.empty(len(timestamps_ms), np.int64)
        _advance(timestamps_ms, self.length_ms, self.max_ahead_ms, self.state, epochs)
        return epochs

    @property
    def watermark_ms(self) -> int:
        """The highest timestamp accepted so far, -1 before the first."""
        return int(self.state[_WATERMARK])

    @property
    def epoch(self) -> int:
        """The epoch of the watermark, -1 before the first record."""
        return int(self.state[_EPOCH])

    @property
    def late(self) -> int:
        """How many accepted records belong to an epoch that had ended."""
        return int(self.state[_LATE])

    @property
    def end_ms(self) -> int:
        """The event time at which the current epoch ends."""
        return (self.epoch + 1) * self.length_ms


@kernel
def _advance(
    timestamps: NDArray[np.int64],
    length: int,
    max_ahead: int,
    state: NDArray[np.int64],
    epochs: NDArray[np.int64],
) -> None:
    """Move `state` over n timestamps and write n epochs; `state` and `epochs` are modified in place."""
    for row in range(len(timestamps)):
        timestamp = timestamps[row]
        # Differences of non-negative numbers: a sum could overflow.
        if state[_WATERMARK] >= 0 and timestamp - state[_WATERMARK] > max_ahead:
            if state[_AHEAD] > 0:
                state[_AHEAD_LOW] = min(state[_AHEAD_LOW], timestamp)
                state[_AHEAD_HIGH] = max(state[_AHEAD_HIGH], timestamp)
            if state[_AHEAD] == 0 or state[_AHEAD_HIGH] - state[_AHEAD_LOW] > max_ahead:
                state[_AHEAD] = 0
                state[_AHEAD_LOW] = timestamp
                state[_AHEAD_HIGH] = timestamp
            state[_AHEAD] += 1
            if state[_AHEAD] < JUMP_RECORDS:
                epochs[row] = NO_EPOCH
                continue
        state[_AHEAD] = 0
        state[_WATERMARK] = max(state[_WATERMARK], timestamp)
        epoch = timestamp // length
        if epoch < state[_EPOCH]:
            state[_LATE] += 1
        else:
            state[_EPOCH] = epoch
        epochs[row] = state[_EPOCH]
