"""The clock of a partition against a clock that is written down plainly, and the cases that it exists for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.core.event_time import JUMP_RECORDS, NO_EPOCH, EpochClock

HOUR = 3_600_000
DAY = 24 * HOUR


class PlainClock:
    """The rule of DESIGN, one record at a time, on Python's integers and a list of the refused run."""

    def __init__(self, length: int, max_ahead: int) -> None:
        self.length, self.max_ahead = length, max_ahead
        self.accepted: list[int] = []
        self.run: list[int] = []
        self.late = 0

    def tell(self, timestamp: int) -> int:
        """The epoch of one more record, or -1."""
        if self.accepted and timestamp > max(self.accepted) + self.max_ahead:
            agreeing = [*self.run, timestamp]
            if max(agreeing) - min(agreeing) > self.max_ahead:
                agreeing = [timestamp]
            self.run = agreeing
            if len(self.run) < JUMP_RECORDS:
                return -1
        self.run = []
        if self.accepted and timestamp // self.length < max(self.accepted) // self.length:
            self.late += 1
        self.accepted.append(timestamp)
        return max(self.accepted) // self.length


def advance(clock: EpochClock, *timestamps: int) -> list[int]:
    """Epochs of a few timestamps as plain integers."""
    epochs: list[int] = clock.advance(np.array(timestamps, np.int64)).tolist()
    return epochs


# Runs make the believed jump reachable: independent draws would hardly ever agree a hundred times.
runs = st.tuples(st.integers(0, 400), st.integers(1, 130), st.integers(-2, 2))
sequences = st.lists(runs, max_size=12).map(
    lambda parts: [max(0, base * 10 + step * i) for base, count, step in parts for i in range(count)]
)


class TestEpochClock:
    """Which epoch a record is learned in."""

    @given(sequences, st.integers(1, 50), st.integers(1, 300), st.lists(st.integers(0, 1000)))
    def test_equals_the_plain_clock_however_the_sequence_is_cut(
        self, timestamps: list[int], length: int, max_ahead: int, cuts: list[int]
    ) -> None:
        """Epochs, watermark and late count equal the plain clock's, for every division into batches."""
        plain = PlainClock(length, max_ahead)
        expected = [plain.tell(timestamp) for timestamp in timestamps]
        clock = EpochClock(length, max_ahead)
        places = sorted(min(cut, len(timestamps)) for cut in cuts)
        got: list[int] = []
        for start, stop in zip([0, *places], [*places, len(timestamps)], strict=True):
            got += advance(clock, *timestamps[start:stop])
        assert got == expected
        assert clock.late == plain.late
        assert clock.watermark_ms == max(plain.accepted, default=-1)

    @given(sequences, st.integers(1, 50), st.integers(1, 300))
    def test_epochs_never_decrease(self, timestamps: list[int], length: int, max_ahead: int) -> None:
        """Accepted records see a monotone sequence of epochs, whatever order their timestamps have."""
        accepted = [e for e in advance(EpochClock(length, max_ahead), *timestamps) if e != NO_EPOCH]
        assert accepted == sorted(accepted)

    def test_the_boundary_belongs_to_the_new_epoch(self) -> None:
        """A record at exactly the boundary opens the next epoch, one millisecond before it does not."""
        clock = EpochClock(HOUR, DAY)
        assert advance(clock, 5 * HOUR, 6 * HOUR - 1, 6 * HOUR) == [5, 5, 6]
        assert clock.end_ms == 7 * HOUR

    def test_a_late_record_is_learned_in_the_current_epoch_and_counted(self) -> None:
        """Lateness is by epoch: out of order inside the epoch is not late."""
        clock = EpochClock(HOUR, DAY)
        assert advance(clock, 9 * HOUR + 10, 9 * HOUR, 9 * HOUR - 1) == [9, 9, 9]
        assert clock.late == 1

    def test_one_wrong_date_is_refused_and_changes_nothing(self) -> None:
        """A record more than max_ahead past the clock is refused; exactly max_ahead is not."""
        clock = EpochClock(HOUR, DAY)
        assert advance(clock, HOUR, HOUR + DAY + 1, HOUR) == [1, NO_EPOCH, 1]
        assert clock.watermark_ms == HOUR
        assert advance(clock, HOUR + DAY) == [25]

    def test_a_stream_that_paused_is_believed_at_the_hundredth_record(self) -> None:
        """A hundred agreeing records in a row move the clock, ninety-nine do not."""
        clock = EpochClock(HOUR, DAY)
        late_start = 1000 * HOUR
        epochs = advance(clock, 0, *(late_start + i for i in range(JUMP_RECORDS + 1)))
        assert epochs == [0] + [NO_EPOCH] * (JUMP_RECORDS - 1) + [1000, 1000]

    def test_a_good_record_between_breaks_the_run(self) -> None:
        """Wrong dates mixed into a good stream never add up to a jump."""
        clock = EpochClock(HOUR, DAY)
        epochs = advance(clock, *([0, 1000 * HOUR] * (2 * JUMP_RECORDS)))
        assert epochs == [0, NO_EPOCH] * (2 * JUMP_RECORDS)

    def test_wrong_dates_that_disagree_are_never_believed(self) -> None:
        """Random dates further than max_ahead from one another start the run anew."""
        clock = EpochClock(HOUR, DAY)
        epochs = advance(clock, 0, *(1000 * DAY + i % 2 * 2 * DAY for i in range(3 * JUMP_RECORDS)))
        assert epochs[1:] == [NO_EPOCH] * (3 * JUMP_RECORDS)

    def test_the_largest_timestamps_do_not_overflow(self) -> None:
        """2^63 - 1 milliseconds is a far future like any other."""
        clock = EpochClock(HOUR, DAY)
        assert advance(clock, HOUR, 2**63 - 1, HOUR) == [1, NO_EPOCH, 1]

    def test_the_state_array_is_the_whole_state(self) -> None:
        """A clock given another's state goes on as that one, even in a run of refused records."""
        first, second = EpochClock(HOUR, DAY), EpochClock(HOUR, DAY)
        advance(first, 0, *([1000 * HOUR] * 60))
        second.state[:] = first.state
        rest = [1000 * HOUR] * 60
        assert advance(second, *rest) == advance(first, *rest)
        assert second.state.tolist() == first.state.tolist()
