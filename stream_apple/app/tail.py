"""The composition root of `stream-apple tail`: reads from the topics what workers have published, as any reader would.

Anyone may write to these topics, so every message is checked: one that is no prediction is shown as unreadable.
"""

import base64
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, Literal, NamedTuple

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.log_reader import CommittedReader
from stream_apple.app.example_times import ExampleTimes
from stream_apple.app.topic_owner import groups_of_models, other_groups
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.records.message.first_bytes import framing
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.log.ports import LogRange, Place, Record
from stream_apple.stream.model.dead_letters import dead_letter_origin
from stream_apple.stream.positions.lineage import is_fingerprint
from stream_apple.untrusted import real_number

TailSource = Literal["predictions", "dead-letters", "join-dead-letters"]
_Kind = Literal["prediction", "dead_letter", "unreadable"]
_Address = tuple[str, int, int]
"""Topic, partition and offset."""
_NONE: _Address = ("", 0, 0)
_Stopping = Callable[[], bool]

_TOLD = ("prediction", "probability", "probabilities", "label", "loss", "epoch", "id", "model")
_SPARE = 64  # offsets that are allowed for markers of transactions, at first
_FARTHER = 8  # the factor by which reading begins farther back, if too few messages were found
_LONGEST_FAULT = 300
_UNKNOWN_MODELS = 16  # after so many models that no group has, groups are not asked any more


class TailRequest(NamedTuple):
    """Says which messages are to be shown.

    partitions  of the topics; empty for all
    start       where to begin: "newest" for the last `limit` messages, the "beginning" or "end" of the topics, or an
                offset in each partition
    limit       the greatest number of messages, None for all; with "newest" it does not count those that follow
    follow      whether to go on with messages that are published from now on
    """

    sources: tuple[TailSource, ...]
    partitions: tuple[int, ...]
    start: Literal["newest", "beginning", "end"] | int
    limit: int | None
    follow: bool


class PublishedMessage(NamedTuple):
    """A prediction, a dead letter, or a message that is neither, in JSON types.

    example       topic, partition and offset of the example; None if the message does not say
    timestamp_ms  event time of the example: that in its record, if `input.timestamp` names a field; None if it has none
    told          the other facts in the message, by name
    place         topic, partition and offset of the message itself
    """

    kind: _Kind
    example: _Address | None
    timestamp_ms: int | None
    told: Mapping[str, Any]
    place: _Address

    def facts(self) -> dict[str, Any]:
        """Return one flat object; only `at`, the message's own address, is nested."""
        names = ("topic", "partition", "offset")
        example = dict(zip(names, self.example or (None,) * 3, strict=True))
        at = dict(zip(names, self.place, strict=True))
        return {"kind": self.kind, **example, "timestamp_ms": self.timestamp_ms, **self.told, "at": at}


def tail(config: Config, request: TailRequest, stopping: _Stopping = lambda: False) -> Iterator[list[PublishedMessage]]:
    """Yield messages in portions, as they come, those of a partition in order; end after the last, or if `stopping()`.

    ConfigurationError for a topic or partition that does not exist, BrokerError if Kafka does not answer.
    """
    named = {
        "predictions": config.topics.predictions,
        "dead-letters": config.topics.dead_letters,
        "join-dead-letters": config.join.dead_letters,
    }
    sources: dict[str, TailSource] = {named[source]: source for source in request.sources}
    cluster = Cluster(config.kafka)
    places, groups = list(_places(cluster.topics, sources, request.partitions)), _Groups(config, cluster)
    times = ExampleTimes(config)

    def completed(messages: Iterable[PublishedMessage]) -> list[PublishedMessage]:
        found = [groups.named(message) for message in messages]
        known = times.of(message.example for message in found if message.example is not None)
        return [
            message._replace(timestamp_ms=known.get(message.example or _NONE, message.timestamp_ms))
            for message in found
        ]

    with closing(CommittedReader(config.kafka, config.worker.group)) as reader:
        ranges = {place: reader.committed_range(*place) for place in places}
        ends = {place: log.high for place, log in ranges.items()}
        left = request.limit
        if request.start == "newest":
            newest = _newest(reader, ranges, sources, left or 0, stopping)
            yield completed(newest)
            left, starts = None, ends
        else:
            starts = {place: _start(request.start, place, log) for place, log in ranges.items()}
        reader.begin(starts)
        for records in reader.read_to(None if request.follow else ends, stopping):
            found = _parsed(records, sources)[:left]
            yield completed(found)
            left = None if left is None else left - len(found)
            if left == 0:
                break


class _Groups:
    """Finds the group of a model by what groups have committed; the configured one is asked first, others only once."""

    def __init__(self, config: Config, cluster: Cluster) -> None:
        self._config = config
        self._cluster = cluster
        self._known: dict[str, str] = {}
        self._nobodys: set[str] = set()
        self._others_asked = False

    def named(self, message: PublishedMessage) -> PublishedMessage:
        """Return the message, with its model's group if that is known."""
        model = message.told.get("model")
        if not is_fingerprint(model):
            return message
        if model not in self._known and model not in self._nobodys and len(self._nobodys) < _UNKNOWN_MODELS:
            self._ask(model)
        group = self._known.get(model)
        return message if group is None else message._replace(told={**message.told, "group": group})

    def _ask(self, model: str) -> None:
        own = self._config.worker.group
        self._known |= groups_of_models(self._config, self._cluster, [own])
        if model not in self._known and not self._others_asked:
            self._others_asked = True
            self._known = (
                groups_of_models(self._config, self._cluster, other_groups(self._config, self._cluster)) | self._known
            )
        if model not in self._known:
            self._nobodys.add(model)


def _places(
    counts: Mapping[str, int], sources: Mapping[str, TailSource], partitions: tuple[int, ...]
) -> Iterator[Place]:
    for topic in sources:
        if topic not in counts:
            raise ConfigurationError(f"topic {topic}: expected an existing topic, found none")
        # The topic of dead letters may have fewer partitions than the others.
        numbers = [number for number in partitions if number < counts[topic]] if partitions else range(counts[topic])
        yield from ((topic, number) for number in numbers)
    if partitions and max(partitions) >= (most := max(counts[topic] for topic in sources)):
        raise ConfigurationError(f"expected partitions of {', '.join(sources)} below {most}, found {max(partitions)}")


def _start(start: str | int, place: Place, log: LogRange) -> int:
    if isinstance(start, str):
        return log.low if start == "beginning" else log.high
    if not log.low <= start <= log.high:
        topic, partition = place
        raise ConfigurationError(
            f"expected an offset from {log.low} to {log.high} of {topic}-{partition}, found {start}"
        )
    return start


def _newest(
    reader: CommittedReader,
    ranges: Mapping[Place, LogRange],
    sources: Mapping[str, TailSource],
    limit: int,
    stopping: _Stopping,
) -> list[PublishedMessage]:
    """Return the last `limit` messages of all partitions by their times; read farther back until they are found."""
    ends = {place: log.high for place, log in ranges.items()}
    back = 2 * limit + _SPARE
    while True:
        starts = {place: max(log.low, log.high - back) for place, log in ranges.items()}
        kept: dict[Place, deque[PublishedMessage]] = {place: deque(maxlen=limit) for place in ranges}
        reader.begin(starts)
        for records in reader.read_to(ends, stopping):
            for message in _parsed(records, sources):
                if message.place[2] < ends[message.place[:2]]:  # messages that are committed meanwhile come later
                    kept[message.place[:2]].append(message)
        if stopping() or all(len(kept[place]) == limit or starts[place] == ranges[place].low for place in ranges):
            dated = [pair for messages in kept.values() for pair in _dated(messages)]
            merged = [message for _, message in sorted(dated, key=lambda pair: pair[0])]
            return merged[max(len(merged) - limit, 0) :]
        back *= _FARTHER


def _dated(messages: Iterable[PublishedMessage]) -> Iterator[tuple[int, PublishedMessage]]:
    """Yield each message of a partition with the highest time up to it, by which partitions can be merged in order."""
    highest = 0
    for message in messages:
        highest = max(highest, message.timestamp_ms or 0)
        yield highest, message


def _parsed(found: list[tuple[str, Record]], sources: Mapping[str, TailSource]) -> list[PublishedMessage]:
    return [
        (_prediction if sources[topic] == "predictions" else _dead_letter)(topic, record) for topic, record in found
    ]


def _prediction(topic: str, record: Record) -> PublishedMessage:
    try:
        told = decode_prediction(record.value() or b"")
        example = _example(told["topic"], told["partition"], told["offset"])
        facts = {name: _in_json(told[name]) for name in _TOLD if name in told}
        for number in (facts["prediction"], facts.get("probability", 0.0)):
            real_number(number)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        found = framing(record.value() or b"") or repr(error)
        return _unreadable(topic, record, f"expected a prediction, found: {found}")
    return _message("prediction", topic, record, example, facts)


def _dead_letter(topic: str, record: Record) -> PublishedMessage:
    told = dead_letter_origin(record)
    if told is None:
        return _unreadable(topic, record, "expected the headers of a dead letter, found others")
    facts = {"reason": told.reason, "message": told.message, "model": told.model}
    return _message("dead_letter", topic, record, (told.topic, told.partition, told.offset), facts)


def _unreadable(topic: str, record: Record, why: str) -> PublishedMessage:
    return _message("unreadable", topic, record, None, {"message": why[:_LONGEST_FAULT]})


def _message(
    kind: _Kind, topic: str, record: Record, example: _Address | None, told: Mapping[str, Any]
) -> PublishedMessage:
    time_type, timestamp_ms = record.timestamp()
    place = (topic, record.partition(), record.offset())
    return PublishedMessage(kind, example, timestamp_ms if time_type else None, told, place)


def _example(topic: object, partition: object, offset: object) -> _Address:
    """Return an example's topic, partition and offset; TypeError if they are of other types."""
    if not (isinstance(topic, str) and type(partition) is int and type(offset) is int):
        raise TypeError(f"an example at {(topic, partition, offset)!r}")
    return topic, partition, offset


def _in_json(value: object) -> object:
    """Return a value of a prediction as a JSON type; bytes, which an id may be, become base64.

    TypeError for other types, ValueError for a number that is not finite, OverflowError for one that is no float.
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, int | float) and not math.isfinite(value):
        raise ValueError(f"{value} among its numbers")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):  # the probabilities of all classes
        for each in value:
            real_number(each)
        return list(map(_in_json, value))
    raise TypeError(f"a value of type {type(value).__name__}")
