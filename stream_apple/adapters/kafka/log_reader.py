"""Consumers that only read: they join no group, commit nothing, and disturb no worker."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_apple.adapters.kafka.admin import SILENT, Cluster
from stream_apple.adapters.kafka.client_properties import Properties, reader_properties
from stream_apple.adapters.kafka.errors import (
    UNKNOWN,
    call_error,
    fetch_error,
    is_configuration_error,
    refused_configuration,
    translated,
)
from stream_apple.adapters.kafka.retry import ATTEMPT_TIMEOUT_S, RetryPolicy
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.ports import Committed, LogRange, Record

UNKNOWN_S = 10.0
"""For how long it is not believed that a partition is unknown: a broker that has just come back may know of none."""
_POOLED_WAIT_MS = 20
"""So long the broker may keep back the answer to a last question, for which the next reader of the client waits."""


class ReaderPool:
    """Makes readers of one partition each, on clients that are kept for the next: to connect takes longer than to read.

    properties  those of `reader_properties`
    most        clients that are kept while nobody reads with them
    """

    def __init__(self, properties: dict[str, Any], most: int) -> None:
        self._properties = {**properties, "fetch.wait.max.ms": _POOLED_WAIT_MS} if most else properties
        self._most = most
        self._idle: list[Consumer] = []

    def reader(self, topic: str, partition: int, offset: int) -> "PartitionReader":
        """Read this partition from `offset` on."""
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
        """Close the clients that nobody reads with, and keep none from now on."""
        self._most = 0
        while self._idle:
            self._idle.pop().close()


class PartitionReader:
    """`ports.Reader` on librdkafka: one partition of any topic, from `offset` on.

    properties  those of `reader_properties`
    client      made with these, which nobody else uses; None: make one
    give_back   takes the client at the end, unless something was wrong with it; None: it is closed
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
        with refused_configuration():
            self._consumer = client or Consumer(properties, logger=logging.getLogger("librdkafka"))
            self._consumer.assign([self._partition])

    @property
    def position(self) -> int:
        """Everything below has been delivered, or is no record of a committed transaction."""
        if not self._heard:  # a client that had another partition before tells that one's position for a while
            return self._at_end
        with translated(f"the position in {self._place}"):
            (found,) = self._consumer.position([self._partition])
        return max(found.offset, self._at_end)

    @property
    def log_end(self) -> int:
        """As the latest answer has told it, with what is not decided yet; -1 before the first."""
        with translated(f"the end of {self._place}"):
            _, high = self._consumer.get_watermark_offsets(self._partition, cached=True)
        return max(high, -1)

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """What has come; whatever is wrong with the connection, librdkafka goes on trying."""
        with translated(f"reading {self._place}"):
            messages = self._consumer.consume(limit, timeout_s)
        if any(map(Message.error, messages)):
            for message in messages:
                self._look_at(message)
            messages = [message for message in messages if message.error() is None]
        self._heard = self._heard or bool(messages)
        return cast("list[Record]", messages)

    def _look_at(self, message: Message) -> None:
        problem = fetch_error(message)
        if problem is not None:
            self._give_back = None
            raise problem
        error = message.error()
        # What compaction has left out of the log's end, nothing else tells.
        if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  codes of librdkafka's own
            self._at_end = max(self._at_end, message.offset() or 0)

    def close(self) -> None:
        """Give the client back, or close its connections to the brokers."""
        if self._give_back is not None:
            self._give_back(self._consumer)
        else:
            self._consumer.close()


class CommittedReader:
    """What is committed in any partitions of any topics, read by one client from where `begin` says."""

    def __init__(self, properties: Properties, group: str, retry: RetryPolicy | None = None) -> None:
        self._retry = retry or RetryPolicy()
        self._starts: dict[tuple[str, int], int] = {}
        self._properties = reader_properties(properties, group)
        self._consumer = self._client()

    def _client(self) -> Consumer:
        with refused_configuration():
            return Consumer(self._properties, logger=logging.getLogger("librdkafka"))

    def committed_range(self, topic: str, partition: int) -> LogRange:
        """Offsets in the log, up to the first that is not decided yet."""
        return log_range(self._consumer, self._retry, topic, partition)

    def begin(self, starts: Mapping[tuple[str, int], int]) -> None:
        """Read these topics and partitions, and no others, from these offsets on."""
        # With a client of its own: after a second assignment, a client tells positions of the first for a while.
        self._consumer.close()
        self._consumer, self._starts = self._client(), dict(starts)
        with translated("choosing what to read"):
            self._consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])

    def pause(self, place: tuple[str, int]) -> None:
        """Deliver nothing of a partition that is read, until `resume`; what has come with others, may still come."""
        with translated("pausing"):
            self._consumer.pause([TopicPartition(*place)])

    def resume(self, place: tuple[str, int]) -> None:
        """Deliver what a partition has that was paused, from where it was left."""
        with translated("going on"):
            self._consumer.resume([TopicPartition(*place)])

    def passed(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """Whether all that is below these offsets has been delivered, or is no record of a committed transaction."""
        with translated("the reader's positions"):
            found = self._consumer.position([TopicPartition(*place) for place in ends])
        places = ((at, (at.topic, at.partition)) for at in found)
        return all(max(at.offset, self._starts[place]) >= ends[place] for at, place in places)

    def fetch(self, limit: int, timeout_s: float) -> list[tuple[str, Record]]:
        """What has come, each with its topic; GapError if what comes next is gone from the log.

        Whatever else is wrong with the connection, librdkafka goes on trying.
        """
        with translated("reading"):
            messages = self._consumer.consume(limit, timeout_s)
        return [(message.topic() or "", cast("Record", message)) for message in _without_errors(messages)]

    def close(self) -> None:
        """Close the connections to the brokers."""
        self._consumer.close()


def _without_errors(messages: list[Message]) -> list[Message]:
    """The records among what a client has delivered; raises the first error that does not pass by itself."""
    if any(map(Message.error, messages)):
        for message in messages:
            problem = fetch_error(message)
            if problem is not None:
                raise problem
        messages = [message for message in messages if message.error() is None]
    return messages


def committed_offsets(
    consumer: Consumer, retry: RetryPolicy, topic: str, partitions: Sequence[int], *, reads: bool = False
) -> Mapping[int, Committed | None]:
    """What the consumer's group has committed; whether undecided transactions are waited for is the consumer's.

    reads  whether the consumer reads records, which must not be taken from it here
    """
    asked = [TopicPartition(topic, partition) for partition in partitions]

    def ask() -> list[TopicPartition]:
        # The question of somebody who may not see the group only times out. librdkafka says why in place of a record.
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
    """The broker's answer; whether the end is the last stable offset is the consumer's isolation level."""
    asked = TopicPartition(topic, partition)
    believed_from = time.monotonic() + UNKNOWN_S

    def ask() -> LogRange:
        try:
            low, high = consumer.get_watermark_offsets(asked, timeout=ATTEMPT_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() in UNKNOWN and time.monotonic() < believed_from:
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, error.args[0].str())) from error
            raise
        # A broker that has just come back may answer without an offset, and without an error.
        if min(low, high) < 0:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"found the log from {low} to {high}"))
        return LogRange(low, high)

    return retry.retry_until_deadline(f"watermarks of {topic}-{partition}", ask)


class GroupView:
    """What a group has committed in a topic, by a client that waits for no transaction and is made when it is needed.

    properties  those of `reader_properties`
    """

    def __init__(self, properties: dict[str, Any], topic: str, retry: RetryPolicy) -> None:
        self.properties = properties
        self._topic = topic
        self._retry = retry
        self._consumer: Consumer | None = None

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Return what is committed now, or was a moment ago."""
        if self._consumer is None:
            with refused_configuration():
                self._consumer = Consumer(
                    {**self.properties, "isolation.level": "read_uncommitted"}, logger=logging.getLogger("librdkafka")
                )
        return committed_offsets(self._consumer, self._retry, self._topic, partitions)

    def close(self) -> None:
        """Close the connections to the brokers."""
        if self._consumer is not None:
            self._consumer.close()


class KafkaLogs:
    """`snapshots.store.Logs` of a cluster: a group's offsets and all of its topics, for those who only look.

    cluster    the one of the configuration, if it has been reached already
    ahead_kib  of records that a reader may have fetched ahead, instead of what is good for snapshots
    """

    def __init__(
        self,
        config: Config,
        cluster: Cluster | None = None,
        retry: RetryPolicy | None = None,
        ahead_kib: int | None = None,
    ) -> None:
        self._examples = config.topics.examples
        self._kafka = config.kafka
        self._cluster = cluster
        self._retry = retry or RetryPolicy()
        self._properties = reader_properties(config.kafka, config.worker.group, ahead_kib)
        # The end of a log is asked for with what is not decided yet: what was committed before must lie below it.
        undecided = {**self._properties, "isolation.level": "read_uncommitted"}
        with refused_configuration():
            self._consumer = Consumer(undecided, logger=SILENT)

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic had when that was first asked; ConfigurationError if it did not exist."""
        self._cluster = self._cluster or Cluster(self._kafka)
        return self._cluster.partition_count(topic)

    def chosen(self, partitions: Sequence[int]) -> Sequence[int]:
        """These partitions of the examples topic, or all of it; ConfigurationError if it has no such partition."""
        count = self.partition_count(self._examples)
        absent = [number for number in partitions if number >= count]
        if absent:
            raise ConfigurationError(
                f"expected partitions of {self._examples} below {count}, found {', '.join(map(str, absent))}"
            )
        return partitions or range(count)

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """The group's committed offsets; an open transaction is not waited for."""
        return committed_offsets(self._consumer, self._retry, self._examples, partitions)

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """The group's committed offsets; waits for transactions that are still deciding them."""
        with refused_configuration():
            consumer = Consumer(self._properties, logger=SILENT)
        try:
            return committed_offsets(consumer, self._retry, self._examples, partitions)
        finally:
            consumer.close()

    def log_range(self, topic: str, partition: int) -> LogRange:
        """Offsets in the log, up to its very end."""
        return log_range(self._consumer, self._retry, topic, partition)

    def reader(self, topic: str, partition: int, offset: int) -> PartitionReader:
        """A reader of what is committed, with a client of its own."""
        return PartitionReader(self._properties, topic, partition, offset)

    def close(self) -> None:
        """Close the connections to the brokers."""
        self._consumer.close()
