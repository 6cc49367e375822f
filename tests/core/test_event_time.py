"""The clock of a partition against clocks that are written down plainly, a search for what breaks it, and its cases."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_apple.core.event_time import LONE, NO_EPOCH, VOTES_BEHIND, EpochClock
from stream_apple.core.timestamps import END_MS, VOTES_AHEAD

HOUR = 3_600_000
DAY = 24 * HOUR
WEEK = 7 * DAY
NOW = 495_000 * HOUR
"""In 2026."""
SENTINEL = 9_999_999_999_999
"""In 2286; what some producers send for "no time"."""
SETTLED = 2 * VOTES_BEHIND + 2 * LONE
"""After so many records of a sane stream, whatever came before, the clock is near it."""


class PlainClock:
    """The rule as the module's docstring has it, one record at a time, on Python's integers."""

    def __init__(self, length: int, max_ahead: int) -> None:
        self.length, self.max_ahead = length, max_ahead
        self.clock = self.rival = self.label = -1
        self.votes = self.late = 0

    def tell(self, time: int) -> int:
        """The epoch of one more record, or -1."""
        if not 0 < time < END_MS:
            return -1
        if self.clock < 0:
            self.clock, self.label = time, time // self.length
        was = self.clock
        self.late += time // self.length < was // self.length
        if abs(time - was) <= self.max_ahead:
            self._step(time)
            return self.label
        if self.votes and abs(time - self.rival) <= self.max_ahead:
            self.votes, self.rival = self.votes + 1, max(self.rival, time)
        elif self.votes > LONE:
            self.votes -= 1
        else:
            self.votes, self.rival = 1, time
        refused = time > was and self.votes <= LONE
        if self.votes >= (VOTES_AHEAD if self.rival > was else VOTES_BEHIND):
            self.clock, self.rival, self.votes = self.rival, was, LONE + 1
            self.label = min(self.clock, was) // self.length
        return -1 if refused else self.label

    def _step(self, time: int) -> None:
        self.votes = 0 if self.votes <= LONE else max(LONE + 1, self.votes - 1)
        if time // self.length > self.clock // self.length:
            self.label = time // self.length
        self.clock = max(self.clock, time)


def advance(clock: EpochClock, *timestamps: int) -> list[int]:
    """Epochs of a few timestamps as plain integers."""
    epochs: list[int] = clock.advance(np.array(timestamps, np.int64)).tolist()
    return epochs


def every(step: int, count: int, start: int = NOW) -> list[int]:
    """`count` timestamps, `step` apart."""
    return [start + step * number for number in range(count)]


def ends(epochs: list[int]) -> int:
    """How many epochs end in what `advance` gave."""
    accepted = [epoch for epoch in epochs if epoch != NO_EPOCH]
    return sum(later > earlier for earlier, later in pairwise(accepted))


# Runs make long votes reachable: independent draws would hardly ever agree a hundred times.
runs = st.tuples(st.integers(0, 400), st.integers(1, 130) | st.integers(900, 1300), st.integers(-2, 2))
sequences = st.lists(runs, max_size=12).map(
    lambda parts: [max(0, base * 10 + step * i) for base, count, step in parts for i in range(count)]
)

ODD_TIMES = (-1, 0, 1, NOW // 1000, NOW, NOW - 400 * DAY, NOW + 400 * DAY, SENTINEL, END_MS - 1, END_MS)
odd_times = st.sampled_from((*ODD_TIMES, NOW * 1000, 2**63 - 1)) | st.integers(1, END_MS)
odd_runs = st.tuples(odd_times, st.integers(1, 1200), st.sampled_from((-HOUR, -1, 0, 1, HOUR, DAY, WEEK, WEEK + 1)))
odd_sequences = st.lists(odd_runs, max_size=8).map(
    lambda parts: [min(first + step * i, 2**63 - 1) for first, count, step in parts for i in range(count)]
)


def sane(count: int, start: int, max_ahead: int, seed: int) -> list[int]:
    """A stream that keeps to its setting: steps and disorder of up to half of `max_ahead`."""
    draw, clock, found = random.Random(seed), start, []
    for _ in range(count):
        clock += draw.choice((0, 1, max_ahead // 20, max_ahead // 2))
        found.append(max(1, clock - draw.choice((0, 0, max_ahead // 2))))
    return found


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
        assert clock.watermark_ms == plain.clock

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

    @pytest.mark.parametrize("time", [-1, 0, END_MS, NOW * 1000, 2**63 - 1])
    def test_what_is_no_time_is_refused_from_the_first_record_on(self, time: int) -> None:
        """However often it comes, and without a trace: a producer of microseconds moves nothing."""
        clock = EpochClock(HOUR, WEEK)
        untouched = clock.state.tolist()
        assert advance(clock, *[time] * 200) == [NO_EPOCH] * 200
        assert clock.state.tolist() == untouched
        advance(clock, NOW)
        assert advance(clock, *[time] * 200, NOW + HOUR) == [NO_EPOCH] * 200 + [NOW // HOUR + 1]

    def test_the_state_array_is_the_whole_state(self) -> None:
        """A clock given another's state goes on as that one, even while it is being outvoted."""
        first, second = EpochClock(HOUR, DAY), EpochClock(HOUR, DAY)
        advance(first, 1, *([1000 * HOUR] * 60))
        second.state[:] = first.state
        rest = [1000 * HOUR] * 60
        assert advance(second, *rest) == advance(first, *rest)
        assert second.state.tolist() == first.state.tolist()


class TestWrongClocks:
    """What the clock survives."""

    @settings(max_examples=150, deadline=None)
    @given(
        odd_sequences,
        st.integers(1, 2 * SENTINEL // 3) | st.just(NOW),
        st.sampled_from((HOUR, DAY, WEEK, 366 * DAY)),
        st.sampled_from((1000, HOUR, 10 * DAY)),
        st.integers(0, 2**32),
    )
    def test_nothing_that_ever_came_harms_a_sane_stream_for_good(
        self, before: list[int], start: int, max_ahead: int, length: int, seed: int
    ) -> None:
        """After any timestamps: few sane records are refused, and epochs soon end at their boundaries, all of them."""
        stream = sane(SETTLED + 400, start, max_ahead, seed)
        clock = EpochClock(length, max_ahead)
        advance(clock, *before)
        epochs = advance(clock, *stream[:SETTLED])
        assert abs(clock.watermark_ms - max(stream[:SETTLED])) <= 2 * max_ahead
        epochs += advance(clock, *stream[SETTLED:])
        assert epochs.count(NO_EPOCH) <= LONE + 1
        # What is left is a clock that may be ahead by as much as is allowed; the stream overtakes it.
        highest = np.maximum.accumulate(stream)
        overtaken = int(np.searchsorted(highest, highest[SETTLED] + 3 * max_ahead))
        assert overtaken < len(stream) - 100
        own = (highest // length).tolist()
        assert ends(epochs[overtaken:]) == ends(own[overtaken:])
        assert epochs[-1] == own[-1]
        assert clock.watermark_ms == highest[-1]

    @pytest.mark.parametrize("first", [SENTINEL, 1, NOW // 1000, NOW + 400 * DAY, NOW - 400 * DAY, END_MS - 1])
    def test_a_first_timestamp_that_is_wrong(self, first: int) -> None:
        """Epochs end every hour once the others have outvoted it; hardly anything is refused."""
        good = every(HOUR // 100, 3000)
        epochs = advance(EpochClock(HOUR, WEEK), first, *good)
        assert epochs.count(NO_EPOCH) <= LONE
        votes = VOTES_AHEAD if first < NOW else VOTES_BEHIND
        assert epochs[-1] == NOW // HOUR + 29
        assert ends(epochs[1:]) == (3000 - votes) // 100

    @pytest.mark.parametrize("first", [SENTINEL, 1])
    def test_the_producer_of_a_wrong_first_timestamp_goes_on(self, first: int) -> None:
        """One record in five is its, at random: a majority is enough to outvote the clock."""
        draw = random.Random(5)
        clock, good = EpochClock(HOUR, WEEK), every(HOUR // 100, 5000)
        mixed = [time for each in good for time in ([first, each] if draw.random() < 0.25 else [each])]
        epochs = advance(clock, first, *mixed)
        assert sum(epoch == NO_EPOCH for time, epoch in zip(mixed, epochs[1:], strict=True) if time != first) <= 20
        assert abs(ends(epochs) - 50) <= 20
        assert clock.watermark_ms == good[-1]

    def test_a_year_s_pause(self) -> None:
        """Three records are refused; the others are learned, and the next boundary ends the epoch of before."""
        clock = EpochClock(HOUR, WEEK)
        again = NOW + 365 * DAY
        epochs = advance(clock, *every(HOUR // 4, 6), *every(HOUR // 200, 401, again))
        before, after = NOW // HOUR + 1, again // HOUR
        assert epochs[6:] == [NO_EPOCH] * LONE + [before] * (200 - LONE) + [after + 1] * 200 + [after + 2]
        assert clock.end_ms == again + 3 * HOUR

    def test_a_slow_stream_after_a_pause(self) -> None:
        """One record every three days: they agree each with the one before, a hundred need no week in common."""
        clock = EpochClock(DAY, WEEK)
        epochs = advance(clock, NOW, *every(3 * DAY, 150, NOW + 365 * DAY))
        assert epochs.count(NO_EPOCH) == LONE
        assert ends(epochs) == 150 - VOTES_AHEAD

    def test_pauses_as_a_habit(self) -> None:
        """Batches of one time each, every ten days: all but the first boundary end an epoch, without a step between."""
        clock = EpochClock(HOUR, WEEK)
        epochs = advance(clock, *(NOW + 10 * DAY * batch for batch in range(10) for _ in range(150)))
        assert ends(epochs) == 8

    def test_years_of_history_in_one_go(self) -> None:
        """Steps of days, within the setting, are what they seem: each boundary ends an epoch, nothing is refused."""
        clock, history = EpochClock(HOUR, WEEK), every(WEEK, 500, NOW - 500 * WEEK)
        assert advance(clock, *history) == [time // HOUR for time in history]

    def test_history_beside_what_is_live(self) -> None:
        """In turns, each long enough to move the clock: the live ones are all learned, but for the first few."""
        live, history = every(60_000, 5000), every(60_000, 5000, NOW - 700 * DAY)
        mixed = [time for part in range(0, 5000, 1250) for each in (live, history) for time in each[part : part + 1250]]
        epochs = advance(EpochClock(HOUR, WEEK), *mixed)
        assert epochs.count(NO_EPOCH) <= LONE
        assert ends(epochs) <= 5000 // 60 * 2 + 8

    def test_what_is_very_late_ends_no_epoch(self) -> None:
        """A device sends the last month at once, 900 records between live ones: learned now, and the clock stands."""
        clock = EpochClock(HOUR, WEEK)
        epochs = advance(clock, NOW, *every(HOUR // 2, 900, NOW - 40 * DAY), NOW + HOUR)
        assert epochs == [NOW // HOUR] * 901 + [NOW // HOUR + 1]
        assert clock.late == 900

    @pytest.mark.parametrize("wrong_clocks", [1, 40])
    def test_producers_that_disagree_burn_no_epochs(self, wrong_clocks: int) -> None:
        """Batches of a thousand of the good one and 150 of others, each with its own wrong year: no growth by it."""
        good, draw = every(3_600, 20_000), random.Random(3)
        ahead = [NOW + draw.randint(1, 50) * 365 * DAY for _ in range(wrong_clocks)]
        mixed, wrong = list[int](), 0
        for part in range(0, len(good), 1000):
            mixed += good[part : part + 1000]
            mixed += [ahead[part // 1000 % wrong_clocks] + part * 3_600 + number for number in range(150)]
            wrong += 150
        epochs = advance(EpochClock(HOUR, WEEK), *mixed)
        assert 10 <= ends(epochs) <= 20_000 * 3_600 // HOUR + 20
        assert epochs.count(NO_EPOCH) <= wrong_clocks * (LONE + 1)

    def test_a_good_record_between_breaks_the_run(self) -> None:
        """Wrong dates mixed into a good stream never add up to anything."""
        clock = EpochClock(HOUR, DAY)
        assert advance(clock, *([NOW, NOW + 1000 * HOUR] * 300)) == [NOW // HOUR, NO_EPOCH] * 300

    def test_wrong_dates_that_disagree_are_never_believed(self) -> None:
        """Random dates further than max_ahead from one another each begin anew."""
        clock = EpochClock(HOUR, DAY)
        epochs = advance(clock, NOW, *(NOW + 1000 * DAY + i % 2 * 2 * DAY for i in range(300)))
        assert epochs[1:] == [NO_EPOCH] * 300
