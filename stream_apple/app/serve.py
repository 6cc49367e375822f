"""The composition root of `stream-apple serve`: replicas that follow the log, and the HTTP server that asks them."""

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing

import structlog

from stream_apple.adapters.kafka.connectivity import OutageLog
from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.adapters.kafka.partitioner import partition_of
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.app.model_factories import settings_of
from stream_apple.app.model_sources import sources_of
from stream_apple.app.service import SWITCH_S, spare_the_collector
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.http.listener import listen
from stream_apple.http.server import SERVING, HttpServer
from stream_apple.http.serving.answering import Answering
from stream_apple.http.serving.application import Application
from stream_apple.http.serving.bodies import Bodies
from stream_apple.http.serving.questions import Questions
from stream_apple.monitoring.serving_metrics import ServingMetrics
from stream_apple.signals import Signals
from stream_apple.stream.following.replicas import Replicas
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.model.instances import InstanceReader
from stream_apple.stream.model.warmup import warm_up
from stream_apple.stream.positions.lineage import OtherSettingsError, Provenance

_KAFKA_S = 10.0  # for an answer; replicas ask again after a failure
_AHEAD_KIB = 4 << 10

_log = structlog.get_logger()


def serve(config: Config, signals: Signals) -> int:
    """Serve until SIGTERM or SIGINT, then return 0; StreamAppleError if serving can't begin."""
    told = config.serve
    # A port that is in use is told at once. Until there are answers, whoever connects is refused, and does not wait.
    listen(told.host, told.port, section="serve").close()
    with ExitStack() as stack:
        logs = stack.enter_context(closing(KafkaLogs(config, retry=RetryPolicy(_KAFKA_S), ahead_kib=_AHEAD_KIB)))
        sources = stack.enter_context(closing(sources_of(config, logs)))
        numbers = all_partitions(logs, OutageLog(config.kafka))
        _check_group(sources.provenance, logs.committed_now(numbers))
        settings = settings_of(config)
        reader = InstanceReader(settings)
        warm_up(settings, settings.decoder())
        reader.warm_up()
        metrics = ServingMetrics()
        model = settings_digest(sources.provenance)
        metrics.describe(config.worker.group, config.topics.examples, model, told.follow)
        replicas = Replicas(sources, numbers, told.follow, told.max_lag / 1000, metrics)
        metrics.watch(replicas)
        answering = Answering(replicas, reader, model, partition_of)
        questions = Questions(told.max_instances, mapped=settings.mapped)
        bodies = Bodies(told.max_body_bytes, told.max_pending_body_bytes)
        application = Application(config.served_as, answering, questions, bodies, metrics, settings.options)
        spare_the_collector()
        sys.setswitchinterval(SWITCH_S)
        listener = listen(told.host, told.port, section="serve")
        with replicas, HttpServer(application.asgi(), listener, SERVING) as server:
            signals.call(server.stop)
            _log.info("serving", http_port=server.port, partitions=len(numbers), model=model)
            server.wait()
        if replicas.alive:  # a call of its clients waits for a broker, so that none may be closed; the process ends now
            stack.pop_all()
    _log.info("stopped")
    return 0


def all_partitions(logs: KafkaLogs, outage: OutageLog) -> Sequence[int]:
    """Return all partitions, as soon as a broker answers; BrokerError if none does within a minute."""
    begun = time.monotonic()
    for _ in RetryPolicy().attempts():
        try:
            numbers = logs.chosen([])
        except BrokerError as error:
            outage.unanswered(begun, str(error))
            latest = error
        else:
            outage.answered()
            return numbers
    raise latest


def _check_group(provenance: Provenance, committed: Mapping[int, Committed | None]) -> None:
    """Raise ConfigurationError if the group's models have other settings, before anything is served."""
    for number, position in committed.items():
        if position is not None:
            try:
                provenance.read_metadata(number, position)
            except OtherSettingsError as error:
                raise ConfigurationError(
                    f"worker.group: expected the models of group {provenance.group} to be of this configuration, which "
                    f"has to be its workers' own; found others: {error}"
                ) from error


def settings_digest(provenance: Provenance) -> str:
    """Return 16 hex digits over the settings that the models depend on, and the topic: the same for all partitions."""
    described = {"settings": provenance.settings, "topic": provenance.topics.examples, "group": provenance.group}
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
