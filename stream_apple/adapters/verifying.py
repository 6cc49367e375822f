"""The composition root of `stream-apple verify`: a verification on a live cluster, which it only reads."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing

from stream_apple.adapters.kafka_logs import KafkaLogs, subject_of
from stream_apple.adapters.worker import model_maker, model_settings
from stream_apple.config import Config
from stream_apple.core.decode import Decoder
from stream_apple.errors import ConfigurationError
from stream_apple.runtime.deadletters import RejectLimits
from stream_apple.runtime.verification import Progress, Report, Verification

# How many rejects are too many is for the worker to judge, and may have been changed since.
_ANY_REJECTS = RejectLimits(sys.maxsize, 1.0)


def verify(config: Config, partitions: Sequence[int], to: int | None, progress: Progress) -> Iterator[Report]:
    """One report after the other, of these partitions of the examples topic or else of all.

    ConfigurationError if there is nothing to verify; otherwise the errors of `Verification.verify`.
    """
    topic, group, settings = config.topics.examples, config.worker.group, model_settings(config)
    settings = settings._replace(reject_limits=_ANY_REJECTS)
    new_model = model_maker(topic, settings, Decoder(settings.limits))
    with closing(KafkaLogs(config)) as logs:
        numbers = logs.chosen(partitions)
        if not any(logs.committed(numbers).values()):
            raise ConfigurationError(
                f"expected offsets of {topic} that group {group} has committed, found none: "
                f"no worker has published anything with this configuration"
            )
        verification = Verification(logs, subject_of(config), new_model, config.worker.fetch_records, progress)
        for number in numbers:
            yield verification.verify(number, to)
