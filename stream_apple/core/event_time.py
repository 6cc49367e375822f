"""Epochs are spans of event time: a function of the record sequence alone, the same live and in every replay.

The clock of a partition is the highest timestamp so far, and the epoch is `clock // length`. A record of an earlier
epoch is late: it is learned in the current epoch and counted.

A single timestamp is not trusted: the first one may be centuries off, a stream may pause for a year, a producer may
mistake its units. So there are two clocks, the partition's and a rival. Timestamps within `max_ahead` of the clock move
it and vote for it. Of the others, those that agree with one another (each within `max_ahead` of the rival) vote for the
rival. When the rival has a majority of so many records, the two change places:

    rival ahead    VOTES_AHEAD: a pause has ended; records past the first LONE of a run are learned meanwhile
    rival behind   VOTES_BEHIND: the clock was wrong. It takes more votes, because history may be sent beside live
                   records, and is late

A record does not wait for that. A record behind the clock is at most late. A record far ahead is refused while no more
than LONE that agree have come, so that a wrong date is noticed; more of them are a stream, and learned. A timestamp
that is not above 0 and before END_MS is always refused.

An epoch ends when the clock passes a boundary by a step, never because the clocks have changed places: so two producers
that disagree can't end epoch after epoch. It does end if the clock is put ahead twice without a step between.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel
from stream_apple.core.timestamps import END_MS, VOTES_AHEAD

LONE = 3
"""How many agreeing records that are far ahead of the clock are refused before those that follow are learned."""
VOTES_BEHIND = 1000
NO_EPOCH = -1
"""Stands in place of the epoch of a record that is refused."""

# Indices of EpochClock.state. Before the first record the clock and the epoch are -1. Without votes, the rival is left
# over from earlier.
_WATERMARK, _EPOCH, _LATE, _VOTES, _RIVAL = range(5)


class ClockPlan(NamedTuple):
    """The epochs of some records, and the clock after them; the clock itself has not moved.

    epochs  int64[n], the epoch in which each record is learned, or NO_EPOCH. Where the number rises an epoch ends;
            where it falls the clock was put back, and no epoch ends
    state   int64[5], the clock's state after the records
    """

    epochs: NDArray[np.int64]
    state: NDArray[np.int64]


class EpochClock:
    """The event time of one partition.

    length_ms     of an epoch, > 0
    max_ahead_ms  how far from the clock a timestamp may lie before the clock is in doubt, > 0
    state         int64[5], all that the clock remembers; a snapshot holds it and a restore writes it
    """

    def __init__(self, length_ms: int, max_ahead_ms: int) -> None:
        self.length_ms = length_ms
        self.max_ahead_ms = max_ahead_ms
        self.state = np.zeros(5, np.int64)
        self.state[[_WATERMARK, _EPOCH]] = -1

    def plan(self, timestamps_ms: NDArray[np.int64]) -> ClockPlan:
        """Return the epochs of the next records; the clock does not move.

        timestamps_ms  int64[n], in offset order; a record whose timestamp is not above 0 is refused
        """
        epochs, state = np.empty(len(timestamps_ms), np.int64), self.state.copy()
        _advance(timestamps_ms, self.length_ms, self.max_ahead_ms, state, epochs)
        return ClockPlan(epochs, state)

    def move(self, plan: ClockPlan) -> None:
        """Move the clock to the end of a plan, which it has to have made since it last moved."""
        self.state[:] = plan.state

    def advance(self, timestamps_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move the clock over the next records; return their epochs, int64[n], as of `plan`."""
        plan = self.plan(timestamps_ms)
        self.move(plan)
        return plan.epochs

    def copy(self) -> "EpochClock":
        """Return a clock that stands where this one does, and moves alone."""
        clock = EpochClock(self.length_ms, self.max_ahead_ms)
        clock.state[:] = self.state
        return clock

    @property
    def watermark_ms(self) -> int:
        """The highest timestamp that has moved the clock since it last changed places; -1 before the first record."""
        return int(self.state[_WATERMARK])

    @property
    def epoch(self) -> int:
        """The epoch that is being learned, -1 before the first record."""
        return int(self.state[_EPOCH])

    @property
    def late(self) -> int:
        """The number of accepted records that belong to an epoch that had ended."""
        return int(self.state[_LATE])

    @property
    def end_ms(self) -> int:
        """The event time at which the current epoch ends."""
        # By the clock, not by the epoch, which is an earlier one between a pause and the first boundary after it.
        return (self.watermark_ms // self.length_ms + 1) * self.length_ms


@kernel
def _advance(
    timestamps: NDArray[np.int64], length: int, max_ahead: int, state: NDArray[np.int64], epochs: NDArray[np.int64]
) -> None:
    """Move `state` over n timestamps and write n epochs; `state` and `epochs` are modified in place."""
    clock, votes, rival = state[_WATERMARK], state[_VOTES], state[_RIVAL]
    begin = clock // length * length  # of the clock's epoch: divisions are slow, and boundaries rare
    for row in range(len(timestamps)):
        timestamp = timestamps[row]
        # Kafka's clients can't send a timestamp of 0: they replace it by the time of day.
        if timestamp <= 0 or timestamp >= END_MS:
            epochs[row] = NO_EPOCH
            continue
        if clock < 0:
            clock = timestamp
            state[_EPOCH] = clock // length
            begin = clock // length * length
        if timestamp < begin:
            state[_LATE] += 1
        if abs(timestamp - clock) <= max_ahead:
            # A rival with more than LONE votes stays known: if it comes again, none of its records is refused.
            votes = max(LONE + 1, votes - 1) if votes > LONE else 0
            if timestamp - begin >= length:
                state[_EPOCH] = timestamp // length
                begin = timestamp // length * length
            clock = max(clock, timestamp)
            epochs[row] = state[_EPOCH]
            continue
        if votes > 0 and abs(timestamp - rival) <= max_ahead:
            votes += 1
            rival = max(rival, timestamp)
        elif votes > LONE:
            votes -= 1
        else:
            votes = 1
            rival = timestamp
        refused = timestamp > clock and votes <= LONE
        if votes >= (VOTES_AHEAD if rival > clock else VOTES_BEHIND):
            votes = LONE + 1
            state[_EPOCH] = min(clock, rival) // length
            clock, rival = rival, clock
            begin = clock // length * length
        epochs[row] = NO_EPOCH if refused else state[_EPOCH]
    state[_WATERMARK], state[_VOTES], state[_RIVAL] = clock, votes, rival
