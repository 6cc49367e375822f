"""The composition root of `stream-apple compare`: the predictions of two groups, read, paired and compared.

What is read is what any reader of the topics sees (read_committed). Losses are in the predictions; importance weights
are not, so that they are read from the examples, if they are to count.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, NamedTuple, Protocol

import msgpack

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.log_reader import CommittedReader
from stream_apple.app.models import settings_of
from stream_apple.comparing.comparison import LossComparison, PairedLoss
from stream_apple.comparing.pairing import Pairing, Placed
from stream_apple.config import Config
from stream_apple.core.codec.decode import Decoder
from stream_apple.core.codec.prediction_formats import decode_prediction
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.monitoring.inspection import plain
from stream_apple.stream.log.columns import values_of
from stream_apple.stream.log.ports import LogRange, Record

CHAMPION, CHALLENGER, WEIGHTS = range(3)
SIDES = ("champion", "challenger", "weights")
"""Who is paired, in this order; the weights are those of the examples, if they are wanted."""

MOST_HELD = 200_000
"""Items that wait for a partner, of all partitions of a side: some 50 MB. Then the side that is ahead waits."""
_LEAST_HELD = 1_000  # of a partition
_FETCH = 2_000
_FETCH_S = 0.05
_PATIENCE_S = 60.0

_Place = tuple[str, int]


class CompareRequest(NamedTuple):
    """Says what is to be compared.

    alpha     the probability with which a verdict may be wrong
    weighted  whether examples count by their importance weights
    since_ms  only examples from this event time on, milliseconds since 1970
    follow    whether to go on with what is published from now on
    """

    alpha: float = 0.05
    weighted: bool = False
    since_ms: int | None = None
    follow: bool = False


class PlacesReader(Protocol):
    """Reads partitions of topics, as `CommittedReader` does; a place is a topic and the number of a partition."""

    def begin(self, starts: Mapping[_Place, int]) -> None:
        """Read these places, and no others, from these offsets on."""
        ...

    def fetch(self, limit: int, timeout_s: float) -> list[tuple[str, Record]]:
        """Return at most `limit` records with their topics, after `timeout_s` seconds at the latest."""
        ...

    def passed(self, ends: Mapping[_Place, int]) -> bool:
        """Return whether every record below these offsets has been delivered."""
        ...

    def hold(self, place: _Place) -> None:
        """Deliver nothing of a place until `release`."""
        ...

    def release(self, place: _Place) -> None:
        """Go on with a place that was held, from where it was left."""
        ...


class _Answered(NamedTuple):
    """Holds what a side says of an example: its loss, NaN without a label; or, as `loss`, its importance weight."""

    loss: float
    epoch: int = 0
    time_ms: int = 0
    labelled: bool = True


class SideSource(NamedTuple):
    """Says where one side is read.

    ranges   the offsets that each partition holds when the reading begins
    parsed   returns what records of a partition say
    """

    topic: str
    reader: PlacesReader
    ranges: Mapping[int, LogRange]
    parsed: Callable[[Sequence[Record]], Iterable[Placed[_Answered]]]


class Told(NamedTuple):
    """Says what has been compared so far.

    unpaired    by side: answers to examples that the other has not answered
    waiting     by side: answers that are ahead of the other's
    repeated    by side: further answers to the same example
    unlabelled  pairs of predictions without a label
    unreadable  by side: messages that are no prediction for an example of the topic
    complete    whether all has been read that there was in the beginning
    """

    comparison: LossComparison
    unpaired: Mapping[str, int]
    waiting: Mapping[str, int]
    repeated: Mapping[str, int]
    unlabelled: int
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


def compare_groups(
    champion: Config, challenger: Config, request: CompareRequest, stopping: Callable[[], bool] = lambda: False
) -> Iterator[Told]:
    """Yield what is known after each portion of predictions, the last time with `complete`, or until it is to stop.

    ConfigurationError where the two can't be compared, or a topic does not exist; BrokerError if Kafka does not answer.
    """
    check_comparable(champion, challenger)
    with ExitStack() as opened:
        cluster = Cluster(champion.kafka)
        sources = [
            _predictions(opened, champion, cluster, champion.topics.examples),
            _predictions(opened, challenger, Cluster(challenger.kafka), champion.topics.examples),
        ]
        if request.weighted:
            sources.append(_weights(opened, champion, cluster))
        yield from Comparing(sources, request).run(stopping)


def check_comparable(champion: Config, challenger: Config) -> None:
    """Raise ConfigurationError unless these are two groups on one topic, whose losses mean the same."""
    for name, first, second, same in (
        ("topics.examples", champion.topics.examples, challenger.topics.examples, True),
        ("learner.loss", champion.learner.loss, challenger.learner.loss, True),
        ("learner.classes", champion.learner.classes, challenger.learner.classes, True),
        ("worker.group", champion.worker.group, challenger.worker.group, False),
        ("topics.predictions", champion.topics.predictions, challenger.topics.predictions, False),
    ):
        if (first == second) != same:
            kind = "the same" if same else "another one"
            raise ConfigurationError(
                f"{name}: expected {kind} in the challenger's configuration, found {first!r} and {second!r}"
            )


class Comparing:
    """Reads all sides, each as far ahead as memory allows, and compares what all of them have."""

    def __init__(self, sources: Sequence[SideSource], request: CompareRequest, most_held: int = MOST_HELD) -> None:
        self._sources = sources
        self._request = request
        self._partitions = sorted(set.intersection(*(set(source.ranges) for source in sources)))
        most = max(most_held // len(self._partitions), _LEAST_HELD)
        self._pairing = Pairing[_Answered](len(sources), most)
        self._comparison = LossComparison(request.alpha)
        self._unlabelled = 0
        self._unreadable = [0] * len(sources)
        self._held: list[set[int]] = [set() for _ in sources]
        self._unfinished = set(self._partitions)
        self._deadline = 0.0

    def run(self, stopping: Callable[[], bool]) -> Iterator[Told]:
        """Yield what is known after each portion, until all has been read, or it is to stop."""
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
        """Take what a side has next; return the partitions of which something came."""
        source, held = self._sources[side], self._held[side]
        for number in self._partitions:
            if number in held and self._pairing.may_go_on(side, number):
                source.reader.release((source.topic, number))
                held.discard(number)
            elif number not in held and self._pairing.must_wait(side, number):
                source.reader.hold((source.topic, number))
                held.add(number)
        by_partition: dict[int, list[Record]] = {}
        for _, record in source.reader.fetch(_FETCH, _FETCH_S):
            by_partition.setdefault(record.partition(), []).append(record)
        for number, records in by_partition.items():
            found = list(source.parsed(records))
            self._unreadable[side] += len(records) - len(found)
            self._pairing.put(side, number, found)
        return set(by_partition)

    def _compare(self, number: int) -> None:
        """Compare what all sides have of a partition."""
        pairs = []
        for first, second, *weight in self._pairing.take(number):
            if self._request.since_ms is not None and first.time_ms < self._request.since_ms:
                continue
            if not (first.labelled and second.labelled):
                self._unlabelled += 1
                continue
            pairs.append(
                PairedLoss(first.loss, second.loss, weight[0].loss if weight else 1.0, first.epoch, first.time_ms)
            )
        self._comparison.add(pairs)

    def _is_finished(self, number: int) -> bool:
        """Return whether a side has no more of what a partition had at the start: nothing else of it can be paired."""
        return any(
            not self._pairing.held(side, number)
            and number not in self._held[side]
            and source.reader.passed({(source.topic, number): source.ranges[number].high})
            for side, source in enumerate(self._sources)
        )

    def _told(self, *, complete: bool) -> Told:
        def by_side(counts: Sequence[int]) -> dict[str, int]:
            return dict(zip(SIDES, counts, strict=False))

        return Told(
            self._comparison,
            by_side(self._pairing.unpaired),
            by_side(self._pairing.ahead()),
            by_side(self._pairing.repeated),
            self._unlabelled,
            by_side(self._unreadable),
            complete,
        )


def _predictions(opened: ExitStack, config: Config, cluster: Cluster, examples: str) -> SideSource:
    topic = config.topics.predictions
    reader = _reader(opened, config)
    return SideSource(topic, reader, _ranges(reader, cluster, topic), lambda records: answers_in(records, examples))


def _weights(opened: ExitStack, config: Config, cluster: Cluster) -> SideSource:
    topic, decoder = config.topics.examples, settings_of(config).decoder()
    reader = _reader(opened, config)
    return SideSource(topic, reader, _ranges(reader, cluster, topic), lambda records: weights_in(records, decoder))


def _reader(opened: ExitStack, config: Config) -> CommittedReader:
    return opened.enter_context(closing(CommittedReader(config.kafka, config.worker.group)))


def _ranges(reader: CommittedReader, cluster: Cluster, topic: str) -> dict[int, LogRange]:
    return {number: reader.committed_range(topic, number) for number in range(cluster.partition_count(topic))}


def answers_in(records: Sequence[Record], examples: str) -> Iterator[Placed[_Answered]]:
    """Yield what predictions say of examples in this topic; messages that are none of these are left out.

    Anyone may write to the topic, so nothing is taken for granted.
    """
    for record in records:
        try:
            told = decode_prediction(record.value() or b"")
            topic, partition, offset, epoch, loss = (
                told[name] for name in ("topic", "partition", "offset", "epoch", "loss")
            )
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, msgpack.UnpackException):
            continue
        if (topic, partition) != (examples, record.partition()) or type(offset) is not int or type(epoch) is not int:
            continue
        if loss is not None and type(loss) is not float and type(loss) is not int:
            continue
        try:
            value = math.nan if loss is None else float(loss)
        except OverflowError:
            continue
        if abs(epoch) >= 1 << 63:
            continue
        yield Placed(offset, _Answered(value, epoch, record.timestamp()[1], labelled=loss is not None))


def weights_in(records: Sequence[Record], decoder: Decoder) -> Iterator[Placed[_Answered]]:
    """Yield the importance weights of examples; records that can't be used are left out, as they have no answer."""
    decoded = decoder.decode(values_of(records))
    for row, weight in zip(decoded.rows.tolist(), decoded.batch.weights.tolist(), strict=True):
        yield Placed(records[row].offset(), _Answered(weight))
