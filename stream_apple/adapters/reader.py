"""One partition of any topic, read from an offset on, by a consumer that is no member of a group."""

import logging
from collections.abc import Sequence
from typing import cast

from confluent_kafka import Consumer, KafkaException, TopicPartition

from stream_apple.adapters.clients import Properties, reader_properties
from stream_apple.adapters.verdicts import fetch_verdict, verdict
from stream_apple.errors import ConfigurationError
from stream_apple.runtime.ports import Record


class PartitionReader:
    """See `ports.Reader`; `group` is not joined, but librdkafka asks who coordinates it."""

    def __init__(self, properties: Properties, group: str, topic: str, partition: int, offset: int) -> None:
        self._place = f"{topic}-{partition}"
        try:
            self._consumer = Consumer(reader_properties(properties, group), logger=logging.getLogger("librdkafka"))
            self._consumer.assign([TopicPartition(topic, partition, offset)])
        except KafkaException as error:
            raise ConfigurationError(
                f"kafka: the client refuses to read {self._place}: {error.args[0].str()}"
            ) from error

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """What has come; whatever is wrong with the connection, librdkafka goes on trying."""
        try:
            messages = self._consumer.consume(limit, timeout_s)
        except KafkaException as error:
            raise verdict(error.args[0], f"reading {self._place}") from error
        for message in messages:
            problem = fetch_verdict(message)
            if problem is not None:
                raise problem
        return cast("list[Record]", [message for message in messages if message.error() is None])

    def close(self) -> None:
        """Give back the connections."""
        self._consumer.close()
