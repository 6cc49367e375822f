"""A live cluster for those who only look at it: `verify` and `inspect`."""

import logging
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from stream_apple.adapters.admin import Cluster
from stream_apple.adapters.clients import reader_properties
from stream_apple.adapters.patience import Patience
from stream_apple.adapters.positions import committed_offsets, log_range
from stream_apple.adapters.reader import PartitionReader
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.runtime.ports import Committed, LogRange
from stream_apple.runtime.section import LogReader
from stream_apple.runtime.stored import Subject


class _PositionedReader(PartitionReader):
    """Also steps over the markers of transactions, and says so."""

    def __init__(self, config: Config, topic: str, partition: int, offset: int) -> None:
        super().__init__(config.kafka, config.worker.group, topic, partition, offset)
        self._start = offset
        self._asked = TopicPartition(topic, partition)

    @property
    def position(self) -> int:
        """What `fetch` has passed."""
        (found,) = self._consumer.position([self._asked])
        return max(found.offset, self._start)


class KafkaLogs:
    """`stored.Logs` of a cluster, as a reader that is no member of the group."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._counts = Cluster(config.kafka).topics
        self._patience = Patience()
        # The end of a log is asked for with what is not decided yet: what was committed before must lie below it.
        properties = {**reader_properties(config.kafka, config.worker.group), "isolation.level": "read_uncommitted"}
        try:
            self._consumer = Consumer(properties, logger=logging.getLogger("librdkafka"))
        except KafkaException as error:
            raise ConfigurationError(f"kafka: the client refuses the configuration: {error.args[0].str()}") from error

    def partition_count(self, topic: str) -> int:
        """As the cluster has told at the beginning."""
        if topic not in self._counts:
            raise ConfigurationError(f"topic {topic}: expected an existing topic, found none")
        return self._counts[topic]

    def chosen(self, partitions: Sequence[int]) -> Sequence[int]:
        """These partitions of the examples topic, or all of it; ConfigurationError if it has no such partition."""
        topic = self._config.topics.examples
        count = self.partition_count(topic)
        absent = [number for number in partitions if number >= count]
        if absent:
            raise ConfigurationError(
                f"expected partitions of {topic} below {count}, found {', '.join(map(str, absent))}"
            )
        return partitions or range(count)

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """What is decided; an open transaction is not waited for."""
        return committed_offsets(self._consumer, self._patience, self._config.topics.examples, partitions)

    def log_range(self, topic: str, partition: int) -> LogRange:
        """The broker's answer."""
        return log_range(self._consumer, self._patience, topic, partition)

    def reader(self, topic: str, partition: int, offset: int) -> LogReader:
        """A client of its own."""
        return _PositionedReader(self._config, topic, partition, offset)

    def close(self) -> None:
        """Give back the connections."""
        self._consumer.close()


def subject_of(config: Config) -> Subject:
    """Whose models this configuration is about."""
    return Subject(config.worker.group, **config.topics.model_dump(), model_settings=config.model_settings())
