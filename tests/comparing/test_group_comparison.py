"""Two sides are read as far ahead as memory allows, whatever is in their topics, and compared by pairs."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import DECODER, FakeRecord

from stream_apple.comparing.group_comparison import CompareRequest, ComparisonReport, GroupComparison
from stream_apple.comparing.sides import SideSource, answers_in, weights_in
from stream_apple.stream.log.ports import LogRange, Record

EXAMPLES = "examples"


def prediction(partition: int, at: int, loss: Any, **fields: Any) -> bytes:
    """A message as workers publish it, or with other fields."""
    told = {"prediction": 0.5, "label": 1.0, "loss": loss, "epoch": at // 1_000, "model": "f" * 16}
    told |= {"topic": EXAMPLES, "partition": partition, "offset": at}
    return bytes(msgpack.packb(told | fields))


class Reader:
    """Delivers the logs of a topic by turns, `pace` records at a time; a test sees how far ahead it is."""

    def __init__(self, logs: Mapping[int, Sequence[FakeRecord]], pace: int = 100) -> None:
        self.logs = {number: list(records) for number, records in logs.items()}
        self.paused: set[int] = set()
        self.pauses = 0
        self._pace = pace
        self._next = dict.fromkeys(logs, 0)

    def begin(self, starts: Mapping[tuple[str, int], int]) -> None:
        """From the first record."""
        assert {number for _, number in starts} == set(self.logs)

    def fetch(self, limit: int, timeout_s: float) -> list[tuple[str, Record]]:
        """A portion of each partition that is not paused."""
        assert limit > 0
        assert timeout_s > 0
        found: list[tuple[str, Record]] = []
        for number, records in self.logs.items():
            if number not in self.paused:
                at = self._next[number]
                found += [("topic", record) for record in records[at : at + self._pace]]
                self._next[number] = min(at + self._pace, len(records))
        return found

    def passed(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """Whether all was delivered."""
        return all(self._next[number] >= len(self.logs[number]) for _, number in ends)

    def pause(self, place: tuple[str, int]) -> None:
        """Not twice."""
        assert place[1] not in self.paused
        self.paused.add(place[1])
        self.pauses += 1

    def resume(self, place: tuple[str, int]) -> None:
        """What was paused."""
        self.paused.remove(place[1])


def topic_of(partitions: Mapping[int, Sequence[bytes | None]]) -> dict[int, list[FakeRecord]]:
    """Logs with these values, at a second each."""
    return {
        number: [FakeRecord(number, at, value, 1_000 * at) for at, value in enumerate(values)]
        for number, values in partitions.items()
    }


def source(reader: Reader) -> SideSource:
    """One side, of predictions."""
    ranges = {number: LogRange(0, len(records)) for number, records in reader.logs.items()}
    return SideSource("topic", reader, ranges, lambda records: answers_in(records, EXAMPLES))


def compared(first: Reader, second: Reader, *others: SideSource, most: int = 5_000, **request: Any) -> ComparisonReport:
    """What is told in the end."""
    comparing = GroupComparison([source(first), source(second), *others], CompareRequest(**request), most)
    *_, last = comparing.run(lambda: False)
    assert last.complete
    return last


def losses(offsets: Sequence[int], loss: float, partition: int = 0) -> list[bytes]:
    """Predictions of one group."""
    return [prediction(partition, offset, loss + 0.01 * (offset % 7)) for offset in offsets]


def test_the_better_of_two_is_found() -> None:
    """Over three partitions, of which one is there on one side alone."""
    first = Reader(topic_of({number: losses(range(3_000), 0.5, number) for number in range(2)}))
    second = Reader(topic_of({number: losses(range(3_000), 0.45, number) for number in range(2)}), pace=37)
    told = compared(first, second)
    whole = told.comparison.whole()
    assert (whole.pairs, whole.better) == (6_000, "challenger")
    assert math.isclose(whole.difference, 0.05)
    assert list(told.comparison.epochs()) == [0, 1, 2]
    assert told.unpaired == told.waiting == {"champion": 0, "challenger": 0}
    json.dumps(told.facts(), allow_nan=False)


@settings(max_examples=30, deadline=None)
@given(
    sides=st.lists(st.dictionaries(st.integers(0, 2), st.sets(st.integers(0, 300))), min_size=2, max_size=2),
    paces=st.lists(st.integers(1, 400), min_size=2, max_size=2),
)
def test_whatever_is_missing_pairs_are_those_of_both(sides: list[dict[int, set[int]]], paces: list[int]) -> None:
    """Every answer is in a pair, without a partner, or ahead."""
    readers = [
        Reader(topic_of({number: losses(sorted(side.get(number, ())), 0.5, number) for number in range(3)}), pace)
        for side, pace in zip(sides, paces, strict=True)
    ]
    told = compared(readers[0], readers[1])
    common = sum(len(sides[0].get(number, set()) & sides[1].get(number, set())) for number in range(3))
    assert told.comparison.whole().pairs == common
    for name, side in zip(("champion", "challenger"), sides, strict=True):
        assert common + told.unpaired[name] + told.waiting[name] <= sum(map(len, side.values()))


def test_the_side_that_is_ahead_waits() -> None:
    """Partition by partition: what waits is bounded, and the end is the same."""
    first = Reader(topic_of({number: losses(range(9_000), 0.5, number) for number in range(2)}), pace=900)
    second = Reader(topic_of({number: losses(range(9_000), 0.45, number) for number in range(2)}), pace=20)
    comparing, most = GroupComparison([source(first), source(second)], CompareRequest(), 4_000), 0
    for told in comparing.run(lambda: False):
        most = max(most, *told.waiting.values())
    assert told.comparison.whole().pairs == 18_000
    assert most <= 2 * (2_000 + 900)
    assert first.pauses > 2
    assert not second.pauses


def test_what_others_have_written_is_left_out_and_counted() -> None:
    """Nonsense, others' answers, losses that are none, copies, predictions without a label, or with another one."""
    good = losses(range(10), 0.5)
    strange: list[bytes | None] = [
        None,
        b"",
        b"\xc1",
        b"{",
        msgpack.packb([1]),
        prediction(0, 3, 0.1, topic="others"),
        prediction(1, 3, 0.1),
        prediction(0, 3, "0.1"),
        prediction(0, 3, True),  # noqa: FBT003
        prediction(0, 3, 0.1, offset="3"),
        prediction(0, 3, 0.1, epoch=None),
        prediction(0, 3, 0.1, epoch=1 << 63),
        b'{"topic": "examples", "partition": 0, "offset": 3, "epoch": 0, "loss": 1' + b"0" * 400 + b"}",
        b"[" * 100_000,
    ]
    strange += [prediction(0, 3, 0.1, label="x"), prediction(0, 3, None), prediction(0, 3, 0.1, label=None)]
    unlabelled = prediction(0, 10, None, label=None)
    first = Reader(topic_of({0: [*good[:5], *strange, *good[3:], unlabelled, prediction(0, 11, 0.1)]}))
    second = Reader(topic_of({0: [*good, prediction(0, 10, 0.2), prediction(0, 11, 0.1, label=0.0)]}))
    told = compared(first, second)
    assert told.comparison.whole().pairs == 10
    assert told.unreadable == {"champion": len(strange), "challenger": 0}
    assert told.repeated == {"champion": 2, "challenger": 0}
    assert told.unlabelled == 1
    assert told.disputed == 1


def test_an_infinite_loss_is_told() -> None:
    """There is no verdict while it counts, and no number in JSON that JSON does not have."""
    values = losses(range(4_000), 0.5)
    worse = [*losses(range(3_999), 0.1), prediction(0, 3_999, math.inf)]
    told = compared(Reader(topic_of({0: values})), Reader(topic_of({0: worse})))
    assert told.comparison.unbounded == 1
    assert told.comparison.whole().better is None
    json.dumps(told.facts(), allow_nan=False)
    assert compared(Reader(topic_of({0: values})), Reader(topic_of({0: worse[:-1]}))).comparison.whole().better


def test_only_from_a_time_on() -> None:
    """By the examples' own times."""
    first, second = (Reader(topic_of({0: losses(range(4_000), loss)})) for loss in (0.5, 0.4))
    assert compared(first, second, since_ms=1_000_000).comparison.whole().pairs == 3_000


def test_weights_are_those_of_the_examples() -> None:
    """Where the challenger is worse the examples have no weight, and one can't be used: it has no answer either."""
    values = [msgpack.packb({"features": {"a": 1}, "label": 1, "weight": float(at % 2)}) for at in range(6_000)]
    values[10] = b"nonsense"
    answered = [at for at in range(6_000) if at != 10]
    first = [prediction(0, at, 0.5) for at in answered]
    second = [prediction(0, at, 0.4 if at % 2 else 5.0) for at in answered]
    assert compared(Reader(topic_of({0: first})), Reader(topic_of({0: second}))).comparison.whole().better == "champion"
    examples = Reader(topic_of({0: values}))
    weights = source(examples)._replace(parsed=lambda records: weights_in(records, DECODER))
    told = compared(Reader(topic_of({0: first})), Reader(topic_of({0: second})), weights)
    assert told.comparison.whole().better == "challenger"
    assert told.comparison.whole().pairs == 3_000
    assert math.isclose(told.comparison.whole().challenger_loss, 0.4)
