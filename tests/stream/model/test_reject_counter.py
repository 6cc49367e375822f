"""When there are too many rejects, held against a plain loop."""

from collections import deque
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_apple.stream.model import reject_counter
from stream_apple.stream.model.reject_counter import RejectCounter, RejectLimits


def plain_watch(bits: list[bool], limits: RejectLimits) -> int | None:
    """The first record that makes it too many, counted one by one."""
    recent: deque[bool] = deque(maxlen=reject_counter.WINDOW)
    run = 0
    for index, bad in enumerate(bits):
        recent.append(bad)
        run = run + 1 if bad else 0
        share = sum(recent) / len(recent)
        if run > limits.max_consecutive or (len(recent) >= reject_counter.WINDOW_START and share > limits.max_share):
            return index
    return None


class TestRejectCounter:
    """When to stop."""

    @settings(max_examples=60)
    @given(
        st.lists(st.tuples(st.booleans(), st.integers(1, 700), st.integers(1, 5)), max_size=8),
        st.lists(st.integers(0, 4000), max_size=6),
        st.integers(1, 900),
        st.sampled_from([0.1, 0.25, 0.5, 1.0]),
    )
    def test_finds_the_same_record_as_counting_one_by_one(
        self, runs: list[tuple[bool, int, int]], cuts: list[int], max_consecutive: int, max_share: float
    ) -> None:
        """Whatever the sequence and its batches; runs make long series reachable."""
        bits = [bad and i % step == 0 for bad, count, step in runs for i in range(count)]
        limits = RejectLimits(max_consecutive, max_share)
        watch = RejectCounter(limits)
        found = None
        places = [0, *sorted(min(cut, len(bits)) for cut in cuts), len(bits)]
        for start, stop in pairwise(places):
            excess = watch.observe(np.array(bits[start:stop], np.bool_))
            if excess is not None:
                found = start + excess[0]
                break
        assert found == plain_watch(bits, limits)

    def test_old_rejects_leave_the_window(self) -> None:
        """A reject is forgotten when ten thousand newer records have come, and not before."""
        watch = RejectCounter(RejectLimits(10_000, 0.05))
        start = np.zeros(reject_counter.WINDOW, np.bool_)
        start[:500] = True
        assert watch.observe(start, judged_from=len(start)) is None
        assert watch.observe(np.ones(500, np.bool_)) is None
        assert watch.observe(np.ones(1, np.bool_)) == (
            0,
            "expected at most 5% unusable records (limits.max_reject_share), found 501 of the last 10000",
        )

    def test_the_first_thousand_have_no_share(self) -> None:
        """All bad, but not yet enough of them to judge by; the thousandth record is judged."""
        watch = RejectCounter(RejectLimits(100_000, 0.5))
        assert watch.observe(np.ones(reject_counter.WINDOW_START - 1, np.bool_)) is None
        assert watch.observe(np.zeros(1, np.bool_)) == (
            0,
            "expected at most 50% unusable records (limits.max_reject_share), found 999 of the last 1000",
        )
