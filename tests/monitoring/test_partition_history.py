"""The history of a partition: bounded, evenly spread, and the same when it has been kept."""

import math
from itertools import pairwise

import numpy as np
import pytest

from stream_apple.monitoring.partition_history import (
    MOST_KEPT,
    MOST_POINTS,
    History,
    HistoryPoint,
    points_of,
)


def point(at_ms: int) -> HistoryPoint:
    """A moment."""
    return HistoryPoint._make([at_ms, at_ms + 1, 1, *[float(at_ms)] * 8, at_ms + 2, 3.0])


def test_histories_are_bounded_and_cover_everything() -> None:
    """However long it goes on, there are at most so many points, from the first moment to the last ones."""
    history = History()
    for second in range(20_000):
        history.add(point(1000 * second + 5))
        assert len(history.since(0)) <= MOST_POINTS
    points = history.since(0)
    assert len(points) > MOST_POINTS // 3
    assert points[0].at_ms == 5
    assert points[-1].at_ms > 19_900_000
    steps = {later.at_ms - earlier.at_ms for earlier, later in pairwise(points)}
    assert max(steps) <= 2 * min(steps)
    assert history.since(points[-2].at_ms) == [points[-1]]


@pytest.mark.parametrize("count", [0, 1, MOST_KEPT - 1, MOST_KEPT, MOST_KEPT + 1, MOST_POINTS])
def test_what_is_kept_is_a_part_of_it(count: int) -> None:
    """At most so many points, evenly spread up to the last one, to the bit; and no more than 31 kB."""
    history = History()
    for second in range(count):
        history.add(point(1000 * second))
    kept = history.to_array()
    assert kept.nbytes <= 31_200
    found = points_of(kept)
    assert found == history.since(-1)[:: -max(1, math.ceil(count / MOST_KEPT))][::-1]
    assert len({later.at_ms - earlier.at_ms for earlier, later in pairwise(found)}) <= 1


def test_means_that_are_not_known_are_kept_as_such() -> None:
    """A model without a label yet has NaN for losses, and still a place in time."""
    history = History()
    history.add(HistoryPoint._make([7, 8, 1, *[math.nan] * 8, 9, -1]))
    (found,) = points_of(history.to_array())
    assert all(map(math.isnan, found[3:-2]))
    assert (found.at_ms, found.lag) == (7, -1)


@pytest.mark.parametrize(
    "array",
    [np.zeros(12), np.zeros(13, np.float32), np.full(13, math.nan), np.full(13, math.inf)],
    ids=["columns", "type", "nan", "infinity"],
)
def test_what_another_version_has_kept_is_left_alone(array: np.ndarray) -> None:
    """A history that can't be read is none: it is no reason to refuse a snapshot."""
    assert points_of(array) == []


def test_a_clock_that_is_set_back_does_not_stop_it() -> None:
    """What was kept while the clock was hours ahead is forgotten: the curve goes on at once."""
    history = History()
    for at_ms in (1_000, 2_000, 10_802_000, 10_803_000, 4_000, 5_000):
        history.add(point(at_ms))
    assert [each.at_ms for each in history.since(-1)] == [1_000, 2_000, 4_000, 5_000]


def test_an_insertion_is_bounded_and_has_no_future() -> None:
    """Of two histories of any length, points stay spread over both; a clock that was ahead does not stop ours."""
    history = History(most=10)
    for second in range(9):
        history.add(point(1_000_000 + 1000 * second))
    history.insert([point(1000 * number) for number in range(500)] + [point(10**12)], now_ms=1_010_000)
    points = history.since(-1)
    assert len(points) <= 10
    assert points[0].at_ms == 0
    assert points[-1].at_ms <= 1_010_000
    assert [each.at_ms for each in points] == sorted({each.at_ms for each in points})
    for second in range(2000):
        history.add(point(1_010_000 + 1000 * second))
    assert history.since(-1)[-1].at_ms > 2_400_000
