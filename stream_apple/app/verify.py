"""The composition root of `stream-apple verify`: verifies a group's answers on a live cluster, which it only reads."""

from collections.abc import Sequence
from contextlib import closing

from stream_apple.adapters.kafka.log_reader import NO_OFFSETS, KafkaLogs
from stream_apple.app.model_sources import sources_of
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.stream.verification.partition_report import Report, ReportProgress
from stream_apple.stream.verification.verifier import Verifier


def verify(config: Config, partitions: Sequence[int], to: int | None, progress: ReportProgress) -> list[Report]:
    """Return reports on these partitions of the examples topic, or on all.

    to  the offset to end at; None: the committed one

    ConfigurationError if there is nothing to verify; otherwise it raises what `Verifier` does.
    """
    topic, group = config.topics.examples, config.worker.group
    with closing(KafkaLogs(config)) as logs:
        numbers = logs.chosen(partitions)
        if not any(logs.committed_now(numbers).values()):
            raise ConfigurationError(
                f"expected offsets of {topic} that group {group} has committed, found none: {NO_OFFSETS}"
            )
        with closing(sources_of(config, logs)) as sources:
            verifier = Verifier(sources, progress)
            if not partitions and to is None:
                return verifier.verify_all()
            return verifier.verify_each(numbers, to)
