"""Consumers that only read: they join no group, commit nothing, and disturb no worker."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_apple.adapters.kafka.admin import SILENT, Cluster
from stream_apple.adapters.kafka.client_properties import Properties, reader_properties
from stream_apple.adapters.kafka.errors import (
    UNKNOWN,
    call_error,
    error_text,
    is_configuration_error,
    records_among,
    refused_configuration,
    translated,
)
from stream_apple.adapters.kafka.retry import ATTEMPT_TIMEOUT_S, DEADLINE_S, RetryPolicy
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.stream.log.ports import Committed, LogRange, Place, ReaderSource, Record

LOST_OFFSETS = "the group's offsets are lost, which `stream-apple check` tells"
"""Why a group may seem to have nothing."""
NO_OFFSETS = f"no worker has published anything with this configuration, or {LOST_OFFSETS}"
"""What it means that a group has committed nothing."""
UNKNOWN_S = 10.0
"""Seconds after which a broker is believed that does not know a partition: one that just came back may know none."""
PATIENCE_S = 60.0
"""The longest wait without a record before the end of what is committed."""
_FETCH, _FETCH_S = 1_000, 0.2  # so long Ctrl-C may have to wait
_TAILS = (1_000, 10_000, 100_000)
"""How many offsets at the ends of partitions are read; the next number is taken if they don't show enough."""
_POOLED_WAIT_MS = 20
"""How long a broker may delay the answer to a last fetch of a reader: the next reader of the client waits for it."""


def open_consumer(properties: dict[str, Any], logger: logging.Logger | None = None) -> Consumer:
    """Return a new client; ConfigurationError if librdkafka refuses a property."""
    with refused_configuration():
        return Consumer(properties, logger=logger or logging.getLogger("librdkafka"))


class ReaderPool:
    """Makes readers of one partition each; keeps clients for later readers, as connecting takes longer than reading.

    properties  those of `reader_properties`
    most        how many unused clients are kept
    """

    def __init__(self, properties: dict[str, Any], most: int) -> None:
        self._properties = {**properties, "fetch.wait.max.ms": _POOLED_WAIT_MS} if most else properties
        self._most = most
        self._idle: list[Consumer] = []

    def reader(self, topic: str, partition: int, offset: int) -> "PartitionReader":
        """Return a reader of this partition from `offset` on."""
        client = self._idle.pop(0) if self._idle else None
        return PartitionReader(self._properties, topic, partition, offset, client, self._take_back)

    def _take_back(self, client: Consumer) -> None:
        if len(self._idle) < self._most:
            with suppress(KafkaException):
                client.unassign()
                self._idle.append(client)
                return
        client.close()

    def close(self) -> None:
        """Close the unused clients, and keep none from now on."""
        self._most = 0
        while self._idle:
            self._idle.pop().close()


class PartitionReader:
    """`ports.Reader` on librdkafka: one partition of any topic, from `offset` on.

    properties  those of `reader_properties`
    client      an unused one that was made with these; None: make one
    give_back   takes the client when the reader is closed, unless it has failed; None: the client is closed
    """

    def __init__(
        self,
        properties: dict[str, Any],
        topic: str,
        partition: int,
        offset: int,
        client: Consumer | None = None,
        give_back: Callable[[Consumer], None] | None = None,
    ) -> None:
        self._partition = TopicPartition(topic, partition, offset)
        self._at_end = offset
        self._heard = False
        self._place = f"{topic}-{partition}"
        self._give_back = give_back
        self._consumer = client or open_consumer(properties)
        with refused_configuration():
            self._consumer.assign([self._partition])

    @property
    def position(self) -> int:
        """Return an offset below which all committed records have been delivered."""
        if not self._heard:  # a client that has read another partition reports that one's position for a while
            return self._at_end
        with translated(f"the position in {self._place}"):
            (found,) = self._consumer.position([self._partition])
        return max(found.offset, self._at_end)

    @property
    def log_end(self) -> int:
        """Return the end of the log by the latest answer, with undecided records; -1 before the first answer."""
        with translated(f"the end of {self._place}"):
            _, high = self._consumer.get_watermark_offsets(self._partition, cached=True)
        return max(high, -1)

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """Return the records that have come; librdkafka goes on trying if the connection fails.

        GapError if the next record is gone from the log; other errors as of `records_among`.
        """
        with translated(f"reading {self._place}"):
            messages = self._consumer.consume(limit, timeout_s)
        try:
            records = records_among(messages, self._pass_over)
        except Exception:
            self._give_back = None
            raise
        self._heard = self._heard or bool(records)
        return cast("list[Record]", records)

    def _pass_over(self, message: Message, error: KafkaError) -> None:
        # If compaction has removed the log's last records, only this event tells that the end is reached.
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  codes of librdkafka's own
            self._at_end = max(self._at_end, message.offset() or 0)

    def close(self) -> None:
        """Give the client back, or close its connections to the brokers."""
        if self._give_back is not None:
            self._give_back(self._consumer)
        else:
            self._consumer.close()


class CommittedReader:
    """Reads committed records of several topics and partitions by one client, from the offsets given to `begin`."""

    def __init__(self, properties: Properties, group: str, retry: RetryPolicy | None = None) -> None:
        self._retry = retry or RetryPolicy()
        self._starts: dict[Place, int] = {}
        self._properties = reader_properties(properties, group)
        self._consumer = open_consumer(self._properties)

    def committed_range(self, topic: str, partition: int) -> LogRange:
        """Return the offsets in the log, up to the first that is not decided yet."""
        return log_range(self._consumer, self._retry, topic, partition)

    def begin(self, starts: Mapping[Place, int]) -> None:
        """Read exactly these topics and partitions, from these offsets on."""
        # A new client is made, as one reports positions of its first assignment for a while after the second.
        self._consumer.close()
        self._consumer, self._starts = open_consumer(self._properties), dict(starts)
        with translated("choosing what to read"):
            self._consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])

    def pause(self, place: Place) -> None:
        """Deliver nothing more of a partition before `resume`, except records that have already been fetched."""
        with translated("pausing"):
            self._consumer.pause([TopicPartition(*place)])

    def resume(self, place: Place) -> None:
        """Deliver a paused partition again, from where it was paused."""
        with translated("going on"):
            self._consumer.resume([TopicPartition(*place)])

    def passed(self, ends: Mapping[Place, int]) -> bool:
        """Whether all committed records below these offsets have been delivered."""
        with translated("the reader's positions"):
            found = self._consumer.position([TopicPartition(*place) for place in ends])
        places = ((at, (at.topic, at.partition)) for at in found)
        return all(max(at.offset, self._starts[place]) >= ends[place] for at, place in places)

    def fetch(self, limit: int, timeout_s: float) -> list[tuple[str, Record]]:
        """Return the records that have come, each with its topic; librdkafka goes on trying if the connection fails.

        GapError if the next record is gone from the log.
        """
        with translated("reading"):
            messages = self._consumer.consume(limit, timeout_s)
        return [(message.topic() or "", cast("Record", message)) for message in records_among(messages)]

    def read_to(
        self, ends: Mapping[Place, int] | None, stopping: Callable[[], bool] = lambda: False
    ) -> Iterator[list[tuple[str, Record]]]:
        """Yield what `fetch` returns, until all records below `ends` have come or `stopping()`; None: for ever.

        BrokerError if nothing comes for PATIENCE_S before the ends; otherwise it raises what `fetch` does.
        """
        heard = time.monotonic()
        while not stopping() and (ends is None or not self.passed(ends)):
            if found := self.fetch(_FETCH, _FETCH_S):
                yield found
                heard = time.monotonic()
            elif ends is not None and time.monotonic() - heard > PATIENCE_S:
                raise BrokerError(
                    f"expected all that is committed in {', '.join(sorted({topic for topic, _ in ends}))}, found "
                    f"nothing for {PATIENCE_S:g} s: is the broker gone?"
                )

    def tails(self, places: Collection[Place]) -> Iterator[Iterator[tuple[str, Record]]]:
        """Yield the records at the ends of these partitions, with their topics; then those of longer ends, up to all.

        The caller stops when it has seen enough, or takes partitions out of `places` of which it needs no more.
        BrokerError as of `read_to`.
        """
        for length in _TAILS:
            logs = {place: log for place in places if (log := self.committed_range(*place)).low < log.high}
            if not logs:
                return
            self.begin({place: max(log.low, log.high - length) for place, log in logs.items()})
            yield self._each({place: log.high for place, log in logs.items()})
            if all(log.high - log.low <= length for log in logs.values()):
                return

    def _each(self, ends: Mapping[Place, int]) -> Iterator[tuple[str, Record]]:
        # If retention has deleted what was to be read, the next, longer look begins anew.
        with suppress(GapError):
            for found in self.read_to(ends):
                yield from found

    def close(self) -> None:
        """Close the connections to the brokers."""
        self._consumer.close()


def committed_offsets(
    consumer: Consumer, retry: RetryPolicy, topic: str, partitions: Sequence[int], *, reads: bool = False
) -> Mapping[int, Committed | None]:
    """Return what the consumer's group has committed in the topic.

    The consumer's isolation level decides whether this waits for undecided transactions.

    reads  whether the consumer reads records, which must not be taken from it here
    """
    asked = [TopicPartition(topic, partition) for partition in partitions]

    def ask() -> list[TopicPartition]:
        # Without permission to see the group, the question only times out; librdkafka gives the reason as a message.
        told = None if reads else consumer.poll(0)
        error = told and told.error()
        if error and is_configuration_error(error):
            raise call_error(error, f"committed offsets of {topic}")
        return consumer.committed(asked, timeout=ATTEMPT_TIMEOUT_S)

    found = retry.retry_until_deadline("committed", ask)
    for answer in found:
        if answer.error is not None:
            raise call_error(answer.error, f"committed offset of {answer.topic}-{answer.partition}")
    return {
        answer.partition: Committed(answer.offset, answer.metadata or "") if answer.offset >= 0 else None
        for answer in found
    }


def log_range(consumer: Consumer, retry: RetryPolicy, topic: str, partition: int) -> LogRange:
    """Return the offsets in the log, by the broker; up to the last stable one if the consumer reads committed.

    ConfigurationError if the topic has no such partition.
    """
    asked = TopicPartition(topic, partition)
    believed_from = time.monotonic() + UNKNOWN_S

    def ask() -> LogRange:
        try:
            low, high = consumer.get_watermark_offsets(asked, timeout=ATTEMPT_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in UNKNOWN:
                raise
            if time.monotonic() < believed_from:
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, error.args[0].str())) from error
            raise ConfigurationError(
                f"topic {topic}: expected a partition {partition}, found: {error_text(error.args[0])}; "
                f"`stream-apple topics` creates a topic that is missing, and with --alter the partitions that one lacks"
            ) from error
        # A broker that has just come back may answer without an offset, and without an error.
        if min(low, high) < 0:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"found the log from {low} to {high}"))
        return LogRange(low, high)

    return retry.retry_until_deadline(f"watermarks of {topic}-{partition}", ask)


class GroupView:
    """Reads what a group has committed in a topic, and logs, without waiting for transactions.

    properties  those of `reader_properties`

    The client for the offsets is made at first use.
    """

    def __init__(self, properties: dict[str, Any], topic: str, retry: RetryPolicy) -> None:
        self.properties = properties
        self._unwaiting = {**properties, "isolation.level": "read_uncommitted"}
        self._topic = topic
        self._retry = retry
        self._consumer: Consumer | None = None

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Return the offsets that are committed, or were a moment ago."""
        if self._consumer is None:
            self._consumer = open_consumer(self._unwaiting)
        return committed_offsets(self._consumer, self._retry, self._topic, partitions)

    def reader(self, topic: str, partition: int, offset: int) -> PartitionReader:
        """Return a reader with a client of its own, which delivers all records, undecided and aborted ones, too."""
        return PartitionReader(self._unwaiting, topic, partition, offset)

    def close(self) -> None:
        """Close the connections to the brokers."""
        if self._consumer is not None:
            self._consumer.close()


def committed_now(
    properties: Properties, group: str, topic: str, partitions: Sequence[int], deadline_s: float = DEADLINE_S
) -> Mapping[int, Committed | None]:
    """Return what `GroupView.committed_now` does, by a client that is closed again."""
    with closing(GroupView(reader_properties(properties, group), topic, RetryPolicy(deadline_s))) as view:
        return view.committed_now(partitions)


def commit_outside(properties: Properties, group: str, topic: str, offsets: Mapping[int, Committed]) -> None:
    """Commit these offsets of a group without joining it, which the broker accepts only while it has no members."""
    places = [TopicPartition(topic, number, each.offset, each.metadata) for number, each in offsets.items()]
    with (
        closing(open_consumer(reader_properties(properties, group))) as consumer,
        translated(f"committing offsets of {topic}"),
    ):
        consumer.commit(offsets=places, asynchronous=False)


class KafkaLogs:
    """`snapshots.store.Logs` of a cluster: reads a group's offsets and all of its topics, and changes nothing.

    cluster    the one of the configuration, if it has been reached already
    ahead_kib  KiB of records that a reader may fetch ahead; None: as much as is best for snapshots
    """

    def __init__(
        self,
        config: Config,
        cluster: Cluster | None = None,
        retry: RetryPolicy | None = None,
        ahead_kib: int | None = None,
    ) -> None:
        self._examples = config.topics.examples
        self._group = config.worker.group
        self._kafka = config.kafka
        self._cluster = cluster
        self._retry = retry or RetryPolicy()
        self._properties = reader_properties(config.kafka, config.worker.group, ahead_kib)
        self.undecided: ReaderSource = GroupView(self._properties, self._examples, self._retry)
        # Ends of logs include undecided records, so that every offset committed before the question lies below them.
        self._consumer = open_consumer({**self._properties, "isolation.level": "read_uncommitted"}, SILENT)

    def partition_count(self, topic: str) -> int:
        """Return how many partitions the topic had when first asked; ConfigurationError if it did not exist."""
        self._cluster = self._cluster or Cluster(self._kafka)
        return self._cluster.partition_count(topic)

    def count_now(self) -> int:
        """Return how many partitions the examples topic has by now, 0 if it is gone; BrokerError without an answer."""
        answer = self._retry.retry_until_deadline(
            f"topic {self._examples}", lambda: self._consumer.list_topics(self._examples, timeout=ATTEMPT_TIMEOUT_S)
        )
        return len(answer.topics[self._examples].partitions)

    def chosen(self, partitions: Sequence[int]) -> Sequence[int]:
        """Return each of these partitions of the examples topic once, all if none is given.

        ConfigurationError if one is absent.
        """
        count = self.partition_count(self._examples)
        absent = [number for number in partitions if number >= count]
        if absent:
            raise ConfigurationError(
                f"expected partitions of {self._examples} below {count}, found {', '.join(map(str, absent))}"
            )
        return list(dict.fromkeys(partitions)) or range(count)

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Return the group's committed offsets, without waiting for open transactions."""
        return committed_offsets(self._consumer, self._retry, self._examples, partitions)

    def committed_of(self, number: int) -> Committed:
        """Return the group's committed offset of a partition; ConfigurationError if there is none, or no partition."""
        committed = self.committed_now(self.chosen([number]))[number]
        if committed is None:
            raise ConfigurationError(
                f"expected an offset of {self._examples}-{number} that group {self._group} has committed, found none: "
                f"{NO_OFFSETS}"
            )
        return committed

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Return the group's committed offsets; wait for transactions that are still deciding them."""
        with closing(open_consumer(self._properties, SILENT)) as consumer:
            return committed_offsets(consumer, self._retry, self._examples, partitions)

    def log_range(self, topic: str, partition: int) -> LogRange:
        """Return the offsets in the log, up to its very end."""
        return log_range(self._consumer, self._retry, topic, partition)

    def reader(self, topic: str, partition: int, offset: int) -> PartitionReader:
        """Return a reader of committed records, with a client of its own."""
        return PartitionReader(self._properties, topic, partition, offset)

    def close(self) -> None:
        """Close the connections to the brokers."""
        self._consumer.close()
