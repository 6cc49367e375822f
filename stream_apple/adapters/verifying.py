"""The composition root of `stream-apple verify`: a verification on a live cluster, which it only reads."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from stream_apple.adapters.admin import Cluster
from stream_apple.adapters.clients import reader_properties
from stream_apple.adapters.patience import SLICE_S, Patience
from stream_apple.adapters.reader import PartitionReader
from stream_apple.adapters.verdicts import verdict
from stream_apple.adapters.worker import model_settings
from stream_apple.config import Config
from stream_apple.core.decode import Decoder
from stream_apple.errors import ConfigurationError
from stream_apple.runtime.deadletters import RejectLimits
from stream_apple.runtime.lineage import Lineage
from stream_apple.runtime.ports import Committed, LogRange
from stream_apple.runtime.section import LogReader
from stream_apple.runtime.step import PartitionModel
from stream_apple.runtime.stored import Subject
from stream_apple.runtime.verification import Progress, Report, Verification

# How many rejects are too many is for the worker to judge, and may have been changed since.
_ANY_REJECTS = RejectLimits(sys.maxsize, 1.0)


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
    """`verification.Logs` of a cluster, as a reader that is no member of the group."""

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

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """What is decided; an open transaction is not waited for."""
        topic = self._config.topics.examples
        asked = [TopicPartition(topic, partition) for partition in partitions]
        found = self._patience.insist("committed", lambda: self._consumer.committed(asked, timeout=SLICE_S))
        for answer in found:
            if answer.error is not None:
                raise verdict(answer.error, f"committed offset of {answer.topic}-{answer.partition}")
        return {
            answer.partition: Committed(answer.offset, answer.metadata or "") if answer.offset >= 0 else None
            for answer in found
        }

    def log_range(self, topic: str, partition: int) -> LogRange:
        """The broker's answer."""
        asked = TopicPartition(topic, partition)
        place = f"watermarks of {topic}-{partition}"
        return LogRange(
            *self._patience.insist(place, lambda: self._consumer.get_watermark_offsets(asked, timeout=SLICE_S))
        )

    def reader(self, topic: str, partition: int, offset: int) -> LogReader:
        """A client of its own."""
        return _PositionedReader(self._config, topic, partition, offset)

    def close(self) -> None:
        """Give back the connections."""
        self._consumer.close()


def verify(config: Config, partitions: Sequence[int], to: int | None, progress: Progress) -> Iterator[Report]:
    """One report after the other, of these partitions of the examples topic or else of all.

    ConfigurationError if there is nothing to verify; otherwise the errors of `Verification.verify`.
    """
    topics, group, settings = config.topics, config.worker.group, model_settings(config)
    settings = settings._replace(reject_limits=_ANY_REJECTS)
    decoder = Decoder(settings.limits)

    def new_model(partition: int, lineage: Lineage) -> PartitionModel:
        return PartitionModel(topics.examples, partition, lineage, settings, decoder)

    logs = KafkaLogs(config)
    try:
        numbers = partitions or range(logs.partition_count(topics.examples))
        absent = [number for number in numbers if number >= logs.partition_count(topics.examples)]
        if absent:
            raise ConfigurationError(
                f"expected partitions of {topics.examples} below {logs.partition_count(topics.examples)}, "
                f"found {', '.join(map(str, absent))}"
            )
        if not any(logs.committed(numbers).values()):
            raise ConfigurationError(
                f"expected offsets of {topics.examples} that group {group} has committed, found none: "
                f"no worker has published anything with this configuration"
            )
        subject = Subject(group, **topics.model_dump(), model_settings=config.model_settings())
        verification = Verification(logs, subject, new_model, config.worker.fetch_records, progress)
        for number in numbers:
            yield verification.verify(number, to)
    finally:
        logs.close()
