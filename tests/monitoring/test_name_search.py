"""Names that nobody has seen are found in the topic: when they are asked for, no more often than it is worth."""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import pytest
from stream.verification.published_logs import MemoryLogs, MemoryReader
from structlog.testing import capture_logs
from support.clock import Clock
from support.planted_pair import PAIR, finder, planted
from support.records import DECODER, TOPIC, good
from support.waiting import DEADLINE_S, wait_until

from stream_apple.errors import BrokerError, GapError
from stream_apple.monitoring import name_search
from stream_apple.monitoring.inspection import view_model
from stream_apple.monitoring.name_search import NameSearch, Wanted, find_names
from stream_apple.records.message.feature_hashing import feature_key
from stream_apple.records.message.feature_names import Names

ABSENT = 12_345
PRICE = feature_key(b"price")


class CountingLogs(MemoryLogs):
    """The examples of one partition, and how many of them were read."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.logs[TOPIC, 0] = planted(count)
        self.begun: list[int] = []
        self.readers: list[MemoryReader] = []

    def reader(self, topic: str, partition: int, offset: int) -> MemoryReader:
        """A reader that is remembered."""
        self.begun.append(offset)
        self.readers.append(super().reader(topic, partition, offset))
        return self.readers[-1]


class TestFindNames:
    """One search."""

    def test_a_view_without_names_gets_all_of_them(self) -> None:
        """As after a restart: nothing was seen, and the topic has every feature that is shown."""
        model, _ = finder(planted(3000))
        logs, names = CountingLogs(3000), Names()
        assert view_model(model, names, top=50).monomials.named == 0.0
        assert find_names(logs, TOPIC, Wanted(0, 3000, names.missing), DECODER, names) == frozenset()
        found = view_model(model, names, top=50).monomials
        assert found.named == 1.0
        assert found.top[0].name == PAIR
        assert logs.readers[0].position < 300, "it ends when all are found"

    def test_what_no_example_has_stays_without_a_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The newest examples are read, from the first that there is, and no others."""
        logs, names = CountingLogs(500), Names()
        assert find_names(logs, TOPIC, Wanted(0, 500, frozenset({ABSENT, PRICE})), DECODER, names) == {ABSENT}
        assert names.get(PRICE) == "price"
        monkeypatch.setattr(name_search, "NEWEST", 100)
        assert find_names(logs, TOPIC, Wanted(0, 400, frozenset({ABSENT})), DECODER, names) == {ABSENT}
        logs.remove_before((TOPIC, 0), 350)
        assert find_names(logs, TOPIC, Wanted(0, 400, frozenset({ABSENT})), DECODER, names) == {ABSENT}
        assert logs.begun == [0, 300, 350]
        assert [reader.position for reader in logs.readers] == pytest.approx([500, 400, 400], abs=7)
        assert find_names(logs, TOPIC, Wanted(0, 350, frozenset({ABSENT})), DECODER, names) == {ABSENT}
        assert find_names(logs, TOPIC, Wanted(0, 500, frozenset()), DECODER, names) == frozenset()
        assert len(logs.begun) == 3, "there was nothing to read, or to look for"

    def test_it_ends_when_it_is_told_to(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And after so many bytes."""
        logs, wanted = CountingLogs(500), Wanted(0, 500, frozenset({ABSENT}))
        assert find_names(logs, TOPIC, wanted, DECODER, Names(), lambda: True) == {ABSENT}
        monkeypatch.setattr(name_search, "_MOST_BYTES", 1)
        assert find_names(logs, TOPIC, wanted, DECODER, Names()) == {ABSENT}
        assert [reader.position for reader in logs.readers] == [7, 7]

    def test_records_that_are_no_examples_are_passed_over(self) -> None:
        """As the worker does."""
        logs, names = MemoryLogs(), Names()
        bad = [good(at)._replace(payload=payload) for at, payload in enumerate((None, b"", b"\xc1", b"\x80"))]
        logs.logs[TOPIC, 0] = [*bad, good(4)]
        wanted = frozenset({feature_key(b"a"), feature_key(b"b")})
        assert find_names(logs, TOPIC, Wanted(0, 5, wanted), DECODER, names) == frozenset()
        assert names.known() == {feature_key(b"a"): "a", feature_key(b"b"): "b"}


class Searched:
    """A search that finds what it is told to find, and remembers what it was asked."""

    def __init__(self, found: Collection[int] = ()) -> None:
        self.asked: list[Wanted] = []
        self.found = found
        self.error: Exception | None = None

    def __call__(self, wanted: Wanted, is_over: Callable[[], bool]) -> frozenset[int]:
        """What it has not found."""
        self.asked.append(wanted)
        assert not is_over()
        if self.error is not None:
            raise self.error
        return wanted.keys - frozenset(self.found)


@contextmanager
def searching(searched: Searched, spent_s: float = 0.0) -> Iterator[tuple[NameSearch, Clock[float]]]:
    """A search that costs so much, on a clock that stands still."""
    now = Clock(0.0)
    with NameSearch(searched, now, Clock(0.0, tick=spent_s)) as search:
        yield search, now


class TestNameSearch:
    """When there is one."""

    def test_whoever_looks_waits_for_it_and_asks_again(self) -> None:
        """The first look begins a search; what it has not found is not looked for again in the same examples."""
        searched = Searched({1})
        with searching(searched) as (search, now):
            assert search.look(Wanted(0, 100, frozenset({1, 2})))
            now.now += 1.0
            assert not search.look(Wanted(0, 100 + name_search.NEWEST // 2 - 1, frozenset({2})))
            assert search.look(Wanted(0, 100 + name_search.NEWEST // 2, frozenset({2})))
            now.now += 1.0
            assert search.look(Wanted(0, 100, frozenset({2, 3})))
            now.now += 1.0
            assert search.look(Wanted(1, 100, frozenset({2, 3})))
        assert [(wanted.partition, set(wanted.keys)) for wanted in searched.asked] == [
            (0, {1, 2}),
            (0, {2}),
            (0, {2, 3}),
            (1, {2, 3}),
        ]

    def test_it_takes_a_bounded_share_of_a_core(self) -> None:
        """After a search comes a rest of twenty times its cost, however many ask, and a second at least."""
        searched = Searched({1, 2})
        with searching(searched, spent_s=0.5) as (search, now):
            assert search.look(Wanted(0, 100, frozenset({1})))
            for _ in range(9):
                now.now += 1.0
                assert not search.look(Wanted(1, 100, frozenset({2})))
            now.now += 1.0
            assert search.look(Wanted(1, 100, frozenset({2})))
        assert len(searched.asked) == 2

    def test_one_that_was_dear_is_not_waited_for_too_long(self) -> None:
        """The first may have compiled kernels for half a minute, which is no reason to rest for ten."""
        searched = Searched({1, 2})
        with searching(searched, spent_s=30.0) as (search, now):
            assert search.look(Wanted(0, 100, frozenset({1})))
            now.now += 29.0
            assert not search.look(Wanted(1, 100, frozenset({2})))
            now.now += 1.0
            assert search.look(Wanted(1, 100, frozenset({2})))

    @pytest.mark.parametrize("error", [BrokerError("gone"), GapError("gone")])
    def test_an_error_is_an_event_and_no_more(self, error: Exception) -> None:
        """Learning goes on, and the next look tries again."""
        searched = Searched()
        searched.error = error
        with searching(searched) as (search, now), capture_logs() as logs:
            for _ in range(2):
                assert search.look(Wanted(3, 100, frozenset({1})))
                now.now += 1.0
        assert [(event["event"], event["partition"], event["error"]) for event in logs] == [
            ("names_not_found", 3, "gone")
        ] * 2

    def test_a_slow_search_is_not_waited_for_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The viewer is told what there is; the search goes on, until the worker ends."""
        monkeypatch.setattr(name_search, "WAIT_S", 0.01)
        told, begun = threading.Event(), threading.Event()

        def slow(wanted: Wanted, is_over: Callable[[], bool]) -> frozenset[int]:
            begun.set()
            wait_until(is_over, "the end of the worker")
            told.set()
            return wanted.keys

        with NameSearch(slow) as search:
            assert not search.look(Wanted(0, 100, frozenset({1})))
            assert begun.wait(DEADLINE_S)
            assert not search.look(Wanted(1, 100, frozenset({1})))
        assert told.wait(DEADLINE_S)
        assert not search._thread.is_alive()
