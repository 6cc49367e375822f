"""The work that a record costs does not grow with the number of records that are kept."""

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import pytest
from stream.joining.test_partition_join import heartbeat, impression, outcome
from stream.joining.two_logs import ORIGIN, RULE, SECOND, START, rule_of
from support.records import FakeRecord

from stream_apple.stream.joining.own_messages import read_impressions, read_outcomes
from stream_apple.stream.joining.partition_join import PartitionJoin
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.joining.time_index import TimeIndex

WAIT_MS = 3600 * SECOND
DUE = rule_of(RULE)._replace(wait_ms=WAIT_MS, several="first")
AT_ONCE = DUE._replace(on_outcome=True, max_impressions=1_000_000)
FEW, MANY = 1_000, 8_000


def lines_of(call: Callable[[], object]) -> int:
    """Return how many lines of the joiner's modules a call executes, with those of its comprehensions."""
    lines = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        if "/joining/" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


def lines_of_a_record(rule: JoinRule, shown: list[FakeRecord], said: list[FakeRecord], examples: int) -> float:
    """Return the lines for a record of a join of these logs, which arrive in portions of ten."""
    join, made = PartitionJoin(rule, ORIGIN), 0
    impressions, outcomes = read_impressions(shown, 10_000), read_outcomes(said, 10_000)

    def run() -> None:
        nonlocal made
        for start in range(0, max(len(shown), len(said)), 10):
            join.offer_impressions(impressions[start : start + 10], start + 10, start + 10)
            join.offer_outcomes(outcomes[start : start + 10])
            made += len(join.advance(100).values)
        while step := join.advance(100).values:
            made += len(step)

    lines = lines_of(run)
    assert made == examples
    return lines / (len(shown) + len(said))


def one_id(count: int) -> tuple[list[FakeRecord], list[FakeRecord]]:
    """Return impressions and outcomes of the same id, which are spread over half an hour, and heartbeats."""
    apart = WAIT_MS / 2 / SECOND / count
    shown = [impression(number, number * apart, "unknown") for number in range(count)]
    said: list[FakeRecord] = []
    for number in range(count):
        said.append(outcome(2 * number, number * apart, name="unknown"))
        said.append(heartbeat(2 * number + 1, number * apart, number + 1))
    return shown, said


def stale_outcomes_of_one_id(count: int) -> tuple[list[FakeRecord], list[FakeRecord]]:
    """Return the same with outcomes that are older than all impressions, which none of them belongs to."""
    shown, said = one_id(count)
    at = START - 60 * SECOND
    return shown, [each if number % 2 else each._replace(time_ms=at) for number, each in enumerate(said)]


def ahead_of_the_clock(count: int) -> tuple[list[FakeRecord], list[FakeRecord]]:
    """Return outcomes ahead of the clock, in any order of their times, between outcomes that move it."""
    draw = random.Random(1)
    said = [heartbeat(0, 0, 0)]
    for number in range(1, count):
        seconds = number * 1000 / count if number % 2 else 10 + draw.random() * 1000
        said.append(outcome(number, seconds, name=f"i{number}"))
    return [impression(0, 0, "waits")], said


@pytest.mark.parametrize(
    ("rule", "logs", "examples"),
    [
        (AT_ONCE, one_id, lambda count: count),
        (AT_ONCE, stale_outcomes_of_one_id, lambda _: 0),
        (DUE, ahead_of_the_clock, lambda _: 0),
    ],
)
def test_it_does_not_grow(
    rule: JoinRule, logs: Callable[[int], tuple[list[FakeRecord], list[FakeRecord]]], examples: Callable[[int], int]
) -> None:
    """Eight times the records cost at most as many lines each, and a quarter more."""
    few, many = (lines_of_a_record(rule, *logs(count), examples(count)) for count in (FEW, MANY))
    assert many < 1.25 * few


class At(NamedTuple):
    """A record."""

    offset: int
    time_ms: int


class TestTimeIndex:
    """Against a search through all records."""

    @pytest.mark.parametrize("seed", range(5))
    def test_finds_the_first(self, seed: int) -> None:
        """Whatever was added and removed."""
        draw, index, kept = random.Random(seed), TimeIndex[At](), dict[int, At]()
        for offset in range(0, 6_000, 2):
            kept[offset] = At(offset, offset + draw.randrange(200))
            index.append(kept[offset])
            if draw.random() < [0.2, 0.6][offset > 3_000]:
                gone = draw.choice([min(kept), draw.choice(list(kept)), offset + 1])
                kept.pop(gone, None)
                index.remove(gone)
            start = draw.randrange(offset + 1)
            assert index.find(start, start + 20) == next(
                (each for each in kept.values() if start <= each.time_ms <= start + 20), None
            )
            assert len(index) == len(kept)
            assert index.first(7) == list(kept.values())[:7]

    def test_looks_at_few(self) -> None:
        """Even if some of the times are far from true."""
        index = TimeIndex[At]()
        for offset in range(100_000):
            index.append(At(offset, 10**9 if offset % 10_000 == 5 else offset))
        for offset in range(50_000):
            index.remove(offset)
        index.looked_at = 0
        assert [index.find(start, start) for start in (60_000, 99_999)] == [At(each, each) for each in (60_000, 99_999)]
        assert index.looked_at < 2_000
