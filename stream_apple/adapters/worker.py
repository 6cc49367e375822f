"""The composition root of the worker: every part is made here, once, and handed to the parts that need it."""

import structlog

from stream_apple.adapters.http import Server, routes
from stream_apple.adapters.kafka import KafkaBroker
from stream_apple.adapters.opening import Opening
from stream_apple.adapters.page import page_routes
from stream_apple.adapters.signals import Signals
from stream_apple.adapters.status import Status
from stream_apple.config import Config
from stream_apple.core.decode import Decoder, Limits
from stream_apple.core.learner import Options
from stream_apple.runtime.deadletters import RejectLimits
from stream_apple.runtime.health import Health
from stream_apple.runtime.loop import Loop, Pace, Topics
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.recovery import NewModel, Origin, Recovery
from stream_apple.runtime.step import ModelSettings, PartitionModel
from stream_apple.runtime.warmup import warm_up
from stream_apple.runtime.watching import Observer, Watch, Watching

_log = structlog.get_logger()


def run(config: Config, opening: Opening, signals: Signals) -> int:
    """Work until SIGTERM or SIGINT, then return 0; StreamAppleError if going on makes no sense."""
    listener, kafka = opening
    metrics, health, watch = Metrics(), Health(), Watch()
    metrics.describe(about(config), config.worker.snapshot_interval / 1000, config.epochs.length / 1000)
    status = Status(watch, metrics.registry, health, config.redacted())
    paths = {**routes(health, metrics.registry), **page_routes(status)}
    with Server(listener, paths) as server, Watching(watch):
        _log.info("started", http_port=server.port, config=config.redacted())
        metrics.watch_brokers(lambda: kafka.reachable)
        settings = model_settings(config)
        decoder = Decoder(settings.limits)
        warm_up(settings, decoder)
        health.compiled()
        turning = loop(config, kafka, settings, decoder, metrics, health, watch)
        watch.follow(lambda: turning.owned)

        def finish() -> None:
            turning.stop()
            kafka.hurry()
            if config.worker.on_stop == "leave":
                kafka.leave()

        signals.call(finish)
        turning.run()
    _log.info("stopped")
    return 0


def about(config: Config) -> dict[str, str]:
    """What tells this worker from others on a dashboard."""
    return {
        "group": config.worker.group,
        "worker": config.worker.id,
        "topic": config.topics.examples,
        "method": config.learner.method,
        "loss": config.learner.loss,
    }


def loop(
    config: Config,
    kafka: KafkaBroker,
    settings: ModelSettings,
    decoder: Decoder,
    metrics: Metrics,
    health: Health,
    observer: Observer | None = None,
) -> Loop:
    """The loop of this worker, not running yet."""
    worker = config.worker
    return Loop(
        kafka,
        Topics(**config.topics.model_dump()),
        Pace(
            worker.fetch_records,
            worker.commit_records,
            worker.commit_interval / 1000,
            worker.snapshot_interval / 1000,
        ),
        recovery(config, settings, decoder),
        metrics,
        health,
        observer=observer,
    )


def recovery(config: Config, settings: ModelSettings, decoder: Decoder) -> Recovery:
    """Makes models of this configuration."""
    topic = config.topics.examples
    origin = Origin(topic, config.worker.group, config.model_settings())
    return Recovery(origin, model_maker(topic, settings, decoder), config.worker.accepted_gaps)


def model_maker(topic: str, settings: ModelSettings, decoder: Decoder) -> NewModel:
    """Makes models of these settings that have learned nothing."""
    return lambda partition, lineage: PartitionModel(topic, partition, lineage, settings, decoder)


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
