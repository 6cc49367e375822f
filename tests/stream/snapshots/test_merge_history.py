"""Whether a round has been merged is known for ever, and where it is for a while."""

import random

from hypothesis import example, given
from hypothesis import strategies as st

from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.merge_history import MOST_MERGES, MOST_RANGES, MergeHistory


def pointers_to(rounds: list[int]) -> list[MergedPointer]:
    """Where the merges of these rounds are, in this order."""
    return [MergedPointer(number, 10 * place, 10 * place + 4) for place, number in enumerate(rounds)]


def of(rounds: list[int]) -> MergeHistory:
    """That of rounds that were merged in this order."""
    history = MergeHistory()
    for each in pointers_to(rounds):
        history = history.add(each)
    return history


class TestHistory:
    """What is known of merges."""

    @example(364, 2_139_095_040)
    @given(st.integers(0, 400), st.integers(0, 2**32))
    def test_in_any_order(self, count: int, seed: int) -> None:
        """Every round that was merged is known, with its place if it is among the newest; no others are."""
        rounds = random.Random(seed).sample(range(count + 10), count)
        history, had_room = MergeHistory(), True
        for each in pointers_to(rounds):
            history = history.add(each)
            had_room &= len(history.dropped) < MOST_RANGES  # later rounds may close the gaps, so the end does not tell
        for number in range(count + 10):
            assert history.has(number) >= (number in rounds)
            if had_room:
                assert history.has(number) == (number in rounds)
        for number in rounds[:-MOST_MERGES]:
            assert history.gone(number)
            assert history.find(number) is None
        for place, number in enumerate(rounds):
            if place >= count - MOST_MERGES:
                assert history.find(number) == MergedPointer(number, 10 * place, 10 * place + 4)
                assert not history.gone(number)

    def test_a_clock_far_ahead_hides_nobody(self) -> None:
        """A partition a year ahead merges alone, long ago: the rounds between have not been merged."""
        history = of([0, 9_000, *range(1, MOST_MERGES + 1)])
        assert history.dropped == ((0, 0), (9_000, 9_000))
        assert history.gone(9_000)
        assert not history.has(MOST_MERGES + 1)
        assert not history.has(8_999)

    def test_its_size_is_bounded(self) -> None:
        """Where every other round is left out, what lies between counts as merged, too: never twice is safe."""
        rounds = list(range(0, 4 * MOST_MERGES, 2))
        history = of(rounds)
        assert len(history.merges) == MOST_MERGES
        assert len(history.dropped) == MOST_RANGES
        assert all(history.has(number) for number in rounds)
        assert not history.has(4 * MOST_MERGES)
