"""The composition root of the worker: every part is made here, once, and handed to the parts that need it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import structlog

from stream_apple.adapters.clients import Identity
from stream_apple.adapters.http import Server, routes
from stream_apple.adapters.kafka import KafkaBroker
from stream_apple.config import Config
from stream_apple.core.decode import Decoder, Limits
from stream_apple.core.learner import Options
from stream_apple.runtime.deadletters import RejectLimits
from stream_apple.runtime.health import Health
from stream_apple.runtime.lineage import Lineage
from stream_apple.runtime.loop import Loop, Pace, Topics
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.recovery import Origin, Recovery
from stream_apple.runtime.step import ModelSettings, PartitionModel
from stream_apple.runtime.warmup import warm_up

_log = structlog.get_logger()


def run(config: Config) -> int:
    """Work until SIGTERM or SIGINT, then return 0; StreamAppleError if going on makes no sense."""
    metrics, health = Metrics(), Health()
    with Server(config.http.host, config.http.port, routes(health, metrics.registry)) as server:
        _log.info("started", http_port=server.port, config=config.redacted())
        settings = model_settings(config)
        decoder = Decoder(settings.limits)
        warm_up(settings, decoder)
        health.compiled()
        kafka = broker(config)
        loop = Loop(
            kafka,
            Topics(config.topics.examples, config.topics.predictions, config.topics.dead_letters),
            Pace(
                config.worker.fetch_records,
                config.worker.commit_records,
                config.worker.commit_interval / 1000,
            ),
            recovery(config, settings, decoder),
            metrics,
            health,
        )
        with _signals(loop, kafka):
            loop.run()
    _log.info("stopped")
    return 0


def broker(config: Config) -> KafkaBroker:
    """The Kafka clients of this worker."""
    worker = config.worker
    identity = Identity(worker.group, worker.id, worker.transactional_id)
    return KafkaBroker(config.kafka, identity, config.topics.examples)


def recovery(config: Config, settings: ModelSettings, decoder: Decoder) -> Recovery:
    """Makes models of this configuration."""
    topic = config.topics.examples

    def new_model(partition: int, lineage: Lineage) -> PartitionModel:
        return PartitionModel(topic, partition, lineage, settings, decoder)

    return Recovery(Origin(topic, config.worker.group, config.model_settings()), new_model)


def model_settings(config: Config) -> ModelSettings:
    """The part of the configuration that a model is made of."""
    learner, limits = config.learner, config.limits
    return ModelSettings(
        Options(
            method=learner.method,
            loss=learner.loss,
            bits=learner.bits,
            alpha=learner.alpha,
            learning_rate=learner.learning_rate,
            max_features_per_example=limits.max_features_per_example,
        ),
        Limits(
            max_features=limits.max_features,
            max_record_bytes=limits.max_record_bytes,
            max_weight=limits.max_weight,
            min_label=limits.min_label,
            max_label=limits.max_label,
            binary=learner.loss == "logistic",
        ),
        epoch_length_ms=config.epochs.length,
        max_ahead_ms=config.epochs.max_ahead,
        reject_limits=RejectLimits(limits.max_consecutive_rejects, limits.max_reject_share),
    )


@contextmanager
def _signals(loop: Loop, kafka: KafkaBroker) -> Iterator[None]:
    """The first SIGTERM or SIGINT stops `loop` after its batch, the second at once."""
    asked = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        _log.info("stop_requested", signal=signal.Signals(number).name, at_once=asked)
        if asked:
            raise KeyboardInterrupt
        asked = True
        loop.stop()
        kafka.hurry()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
