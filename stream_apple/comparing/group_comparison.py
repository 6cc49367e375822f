"""The predictions of two groups, read as far ahead as memory allows, paired and compared."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stream_apple.comparing.loss_comparison import LossComparison, PairedLoss
from stream_apple.comparing.pairing import Pairing
from stream_apple.comparing.sides import SideAnswer, SideSource
from stream_apple.errors import BrokerError
from stream_apple.monitoring.inspection import plain

SIDES = ("champion", "challenger", "weights")
"""The sides that are paired, in this order; the third has the importance weights of the examples, if they count."""

MOST_WAITING = 200_000
"""How many answers of a side, in all partitions, may wait for a partner (some 50 MB) before that side has to wait."""
_LEAST_WAITING = 1_000  # answers that may wait in any one partition
_FETCH = 2_000
_FETCH_S = 0.05
_PATIENCE_S = 60.0


class CompareRequest(NamedTuple):
    """What to compare.

    alpha     the probability with which a verdict may be wrong
    weighted  whether examples count by their importance weights
    since_ms  only examples from this event time on, milliseconds since 1970
    follow    whether to go on with what is published from now on
    """

    alpha: float = 0.05
    weighted: bool = False
    since_ms: int | None = None
    follow: bool = False


class ComparisonReport(NamedTuple):
    """The comparison so far.

    unpaired    by side: answers to examples that another side has not answered
    waiting     by side: answers that are ahead of the others'
    repeated    by side: further answers to the same example
    unlabelled  pairs of predictions without a label
    disputed    pairs whose labels differ: the groups read the examples in different ways
    unreadable  by side: messages that are not a prediction for an example of the topic
    complete    whether everything has been read that the topics held at the start
    """

    comparison: LossComparison
    unpaired: Mapping[str, int]
    waiting: Mapping[str, int]
    repeated: Mapping[str, int]
    unlabelled: int
    disputed: int
    unreadable: Mapping[str, int]
    complete: bool

    def facts(self) -> dict[str, Any]:
        """Return all of it in JSON types; numbers that are not known yet are null."""
        told = {name: getattr(self, name) for name in self._fields if name != "comparison"}
        epochs = [{"epoch": epoch, **each.facts()} for epoch, each in self.comparison.epochs().items()]
        whole = self.comparison.whole().facts()
        facts: dict[str, Any] = plain(
            {"whole": whole, "epochs": epochs, "unbounded": self.comparison.unbounded, **told}
        )
        return facts


class GroupComparison:
    """Reads all sides, each as far ahead as memory allows, and compares what all of them have."""

    def __init__(self, sources: Sequence[SideSource], request: CompareRequest, most: int = MOST_WAITING) -> None:
        self._sources = sources
        self._request = request
        self._partitions = sorted(set.intersection(*(set(source.ranges) for source in sources)))
        most = max(most // len(self._partitions), _LEAST_WAITING)
        self._pairing = Pairing[SideAnswer](len(sources), most)
        self._comparison = LossComparison(request.alpha)
        self._unlabelled = self._disputed = 0
        self._unreadable = [0] * len(sources)
        self._paused: list[set[int]] = [set() for _ in sources]
        self._unfinished = set(self._partitions)
        self._deadline = 0.0

    def run(self, stopping: Callable[[], bool]) -> Iterator[ComparisonReport]:
        """Yield a report after each portion, until everything has been read or `stopping` returns True.

        BrokerError if nothing comes for _PATIENCE_S, though not everything has been read.
        """
        for source in self._sources:
            source.reader.begin({(source.topic, number): source.ranges[number].low for number in self._partitions})
        self._deadline = time.monotonic() + _PATIENCE_S
        while not stopping():
            came = [self._read(side) for side in range(len(self._sources))]
            for number in set().union(*came):
                self._compare(number)
            if any(came):
                self._deadline = time.monotonic() + _PATIENCE_S
                yield self._told(complete=False)
                continue
            self._unfinished = {number for number in self._unfinished if not self._is_finished(number)}
            if not self._unfinished:
                yield self._told(complete=True)
                if not self._request.follow:
                    return
            elif time.monotonic() > self._deadline:
                topics = ", ".join(source.topic for source in self._sources)
                raise BrokerError(
                    f"expected all that is committed in {topics}, found nothing for {_PATIENCE_S:g} s: is the broker "
                    f"gone, or is a transaction open there?"
                )

    def _read(self, side: int) -> set[int]:
        """Read the next answers of a side; return the partitions that had any."""
        source, paused = self._sources[side], self._paused[side]
        for number in self._partitions:
            if number in paused and self._pairing.may_go_on(side, number):
                source.reader.resume((source.topic, number))
                paused.discard(number)
            elif number not in paused and self._pairing.must_wait(side, number):
                source.reader.pause((source.topic, number))
                paused.add(number)
        by_partition = source.fetch(_FETCH, _FETCH_S)
        for number, records in by_partition.items():
            found = list(source.parsed(records))
            self._unreadable[side] += len(records) - len(found)
            self._pairing.put(side, number, found)
        return set(by_partition)

    def _compare(self, number: int) -> None:
        """Compare the answers of a partition that all sides have."""
        pairs = []
        for first, second, *weight in self._pairing.take(number):
            if self._request.since_ms is not None and first.time_ms < self._request.since_ms:
                continue
            if first.label is None or second.label is None:
                self._unlabelled += 1
                continue
            if first.label != second.label:
                self._disputed += 1
                continue
            pairs.append(
                PairedLoss(first.loss, second.loss, weight[0].loss if weight else 1.0, first.epoch, first.time_ms)
            )
        self._comparison.add(pairs)

    def _is_finished(self, number: int) -> bool:
        """Return whether a side has read all that the partition held at the start, so that no more can be paired."""
        return any(
            not self._pairing.waiting(side, number)
            and number not in self._paused[side]
            and source.reader.passed({(source.topic, number): source.ranges[number].high})
            for side, source in enumerate(self._sources)
        )

    def _told(self, *, complete: bool) -> ComparisonReport:
        def by_side(counts: Sequence[int]) -> dict[str, int]:
            return dict(zip(SIDES, counts, strict=False))

        return ComparisonReport(
            self._comparison,
            by_side(self._pairing.unpaired),
            by_side(self._pairing.ahead()),
            by_side(self._pairing.repeated),
            self._unlabelled,
            self._disputed,
            by_side(self._unreadable),
            complete,
        )
