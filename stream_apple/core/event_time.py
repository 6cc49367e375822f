"""Epochs are spans of event time: a function of the record sequence alone, the same live and in every replay.

The clock of a partition is the highest timestamp so far, and the epoch is `clock // length`. A record of an earlier
epoch is late: it is learned in the current epoch and counted.

No timestamp is believed for being there: a first one may be centuries off, a stream may pause for a year, a producer
may mistake its units. So there are two clocks, the partition's and a rival. Timestamps within `max_ahead` of the clock
move it and speak for it; of the others, those that agree with one another (each within `max_ahead` of the rival) speak
for the rival. Once it leads by so many records that the clock is outvoted, the two change places:

    rival ahead    VOTES_AHEAD: a pause has ended; records past the first LONE of a run are learned meanwhile
    rival behind   VOTES_BEHIND: the clock was wrong. More, for history may be sent beside what is live, and is late

What becomes of a record does not wait for that. One behind the clock is late at the most. One ahead is refused while
no more than LONE of its kind have come, so that a wrong date is seen; more of them are a stream, and learned. What is
not a time of this era in milliseconds (LATEST_MS) is always refused.

An epoch ends when the clock passes a boundary by a step, never because the clocks have changed places: two producers
that disagree can't burn through epochs. It ends after all if the clock is put ahead twice without a step between.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel

LONE = 3
"""So many records in a row that are far ahead of the clock, and agree, are refused; those that follow are learned."""
VOTES_AHEAD = 100
VOTES_BEHIND = 1000
LATEST_MS = 253_402_300_800_000
"""The year 10000: timestamps from here on are microseconds, nanoseconds, or no time at all."""
NO_EPOCH = -1
"""In place of an epoch: the record is refused."""

# Layout of EpochClock.state. Before the first record the clock and the epoch are -1. Without votes, the rival is what
# was left of an earlier one. Nothing depends on the rival's lowest timestamp; older versions did.
_WATERMARK, _EPOCH, _LATE, _VOTES, _RIVAL_LOW, _RIVAL = range(6)


class ClockPlan(NamedTuple):
    """What a clock makes of some timestamps, before it has moved.

    epochs  int64[n], the epoch that each record is learned in, or NO_EPOCH; one has ended where the number rises. It
            falls where the clock was put back; there nothing ends.
    state   int64[6], of the clock behind them
    """

    epochs: NDArray[np.int64]
    state: NDArray[np.int64]


class EpochClock:
    """The event time of one partition.

    length_ms     of an epoch, > 0
    max_ahead_ms  how far from the clock a timestamp may lie before the clock is in doubt, > 0
    state         int64[6], all that the clock remembers; a snapshot holds it and a restore writes it
    """

    def __init__(self, length_ms: int, max_ahead_ms: int) -> None:
        self.length_ms = length_ms
        self.max_ahead_ms = max_ahead_ms
        self.state = np.zeros(6, np.int64)
        self.state[[_WATERMARK, _EPOCH]] = -1

    def plan(self, timestamps_ms: NDArray[np.int64]) -> ClockPlan:
        """Return what the clock would make of the next records; the clock stays where it is.

        timestamps_ms  int64[n], in offset order; what is not above 0 is no time
        """
        epochs, state = np.empty(len(timestamps_ms), np.int64), self.state.copy()
        _advance(timestamps_ms, self.length_ms, self.max_ahead_ms, state, epochs)
        return ClockPlan(epochs, state)

    def move(self, plan: ClockPlan) -> None:
        """Go where the plan ends, which this clock has made and not moved since."""
        self.state[:] = plan.state

    def advance(self, timestamps_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Plan, and move at once; return the epochs of the plan."""
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
        """The clock: the highest timestamp so far, unless the clock was put right; -1 before the first."""
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
        # Of the clock, not of the epoch: that is an earlier one between a pause and the first boundary after it.
        return (self.watermark_ms // self.length_ms + 1) * self.length_ms


@kernel
def _advance(
    timestamps: NDArray[np.int64],
    length: int,
    max_ahead: int,
    state: NDArray[np.int64],
    epochs: NDArray[np.int64],
) -> None:
    """Move `state` over n timestamps and write n epochs; `state` and `epochs` are modified in place."""
    clock, votes, rival = state[_WATERMARK], state[_VOTES], state[_RIVAL]
    begin = clock // length * length  # of the clock's epoch: divisions are slow, and boundaries rare
    for row in range(len(timestamps)):
        timestamp = timestamps[row]
        # Kafka's clients can't send a timestamp of 0: they replace it by the time of day.
        if timestamp <= 0 or timestamp >= LATEST_MS:
            epochs[row] = NO_EPOCH
            continue
        if clock < 0:
            clock = timestamp
            state[_EPOCH] = clock // length
            begin = clock // length * length
        if timestamp < begin:
            state[_LATE] += 1
        if abs(timestamp - clock) <= max_ahead:
            # A rival that more than a few have spoken for stays known: if it comes again, nothing of it is refused.
            votes = max(LONE + 1, votes - 1) if votes > LONE else 0
            if timestamp - begin >= length:
                state[_EPOCH] = timestamp // length
                begin = timestamp // length * length
            clock = max(clock, timestamp)
            epochs[row] = state[_EPOCH]
            continue
        if votes > 0 and abs(timestamp - rival) <= max_ahead:
            votes += 1
            state[_RIVAL_LOW] = min(state[_RIVAL_LOW], timestamp)
            rival = max(rival, timestamp)
        elif votes > LONE:
            votes -= 1
        else:
            votes = 1
            state[_RIVAL_LOW] = timestamp
            rival = timestamp
        refused = timestamp > clock and votes <= LONE
        if votes >= (VOTES_AHEAD if rival > clock else VOTES_BEHIND):
            votes = LONE + 1
            state[_EPOCH] = min(clock, rival) // length
            state[_RIVAL_LOW] = clock
            clock, rival = rival, clock
            begin = clock // length * length
        epochs[row] = NO_EPOCH if refused else state[_EPOCH]
    state[_WATERMARK], state[_VOTES], state[_RIVAL] = clock, votes, rival
