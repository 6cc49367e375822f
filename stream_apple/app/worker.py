"""The composition root of the worker: every part is made here, once, and handed to the parts that need it."""

import sys
from collections.abc import Callable, Collection
from contextlib import closing, suppress

import structlog

from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.adapters.kafka.strangers import Strangers
from stream_apple.adapters.kafka.topic_faults import NeededOfTopics
from stream_apple.adapters.kafka.topic_watch import TopicWatch
from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.app.service import SWITCH_S, run_until_stopped
from stream_apple.app.starting_model import starting_model
from stream_apple.app.startup import Opening
from stream_apple.config import Config
from stream_apple.http.application import read_only, routes
from stream_apple.http.pages import page_routes
from stream_apple.http.server import HttpServer
from stream_apple.http.status import Status
from stream_apple.learners.systems import ngrams_of
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.input_watch import InputWatch
from stream_apple.monitoring.merge_metrics import MergeMetrics
from stream_apple.monitoring.metrics import Metrics
from stream_apple.monitoring.name_search import NameSearch, Wanted, find_names
from stream_apple.monitoring.observer import ObserverThread, WorkerObserver
from stream_apple.records.framing import Schemas
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.feature_names import Names
from stream_apple.signals import Signals
from stream_apple.stream.learning.threads import ThreadPool, usable_cores
from stream_apple.stream.log.ports import Broker
from stream_apple.stream.loop.loop import Loop, LoopSettings
from stream_apple.stream.loop.member_watchers import LoopHealth
from stream_apple.stream.loop.owned_partitions import OwnedPartitions
from stream_apple.stream.loop.transaction import CommitSettings
from stream_apple.stream.loop.watchers import Observer, Watchers
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.model.partition_model import ModelFactory
from stream_apple.stream.model.warmup import is_warm, warm_up
from stream_apple.stream.partitions.recovery import Exceptions
from stream_apple.stream.positions.lineage import Provenance

_REFUSED_WITHIN_S = 6.0  # if the checks take longer, kernels are compiled meanwhile
_NAMES_S = 10.0  # for an answer of the broker, when names are looked for
_NAMES_AHEAD_KIB = 4 << 10

_log = structlog.get_logger()


def run(config: Config, opening: Opening, signals: Signals) -> int:
    """Work until SIGTERM or SIGINT, then return 0; StreamAppleError if the worker can't go on."""
    listener, kafka, permission = opening
    provenance = Provenance.of(config)
    settings = settings_of(config)._replace(start=starting_model(config, provenance))
    decoder = settings.decoder()
    names = Names(ngrams=ngrams_of(settings.options))
    watch = InputWatch(settings.mapping, settings.schemas)
    metrics, health, observer = Metrics(), Health(), WorkerObserver(names, decoder=decoder, watch=watch)
    metrics.describe(
        about(config), config.worker.snapshot_interval / 1000, config.epochs.length / 1000, threads_of(config)
    )
    search = NameSearch(lambda wanted, is_over: names_of(config, decoder, observer.names, wanted, is_over))
    status = Status(observer, metrics, health, config.redacted(), search.look)
    application = read_only([*routes(health, metrics.registry), *page_routes(status)])
    with HttpServer(application, listener) as server, ObserverThread(observer), search:
        _log.info("started", http_port=server.port, config=config.redacted())
        for watcher in (metrics, health):
            watcher.watch_brokers(lambda: kafka.reachable)
        health.watch_backlog(metrics.catching_up)
        if is_warm(settings):
            opening.start_fencing()
            warm_up(settings, decoder)
        else:
            # Compiling takes up to a minute. A predecessor works on until this worker can take over, and a fault such
            # as a missing topic is reported before kernels are compiled.
            with suppress(TimeoutError):
                permission.result(_REFUSED_WITHIN_S)
            warm_up(settings, decoder)
            opening.start_fencing()
        health.compiled()
        new_model = model_factory(config.topics.examples, settings, decoder)
        loop, owned = assemble(config, kafka, new_model, metrics, health, observer, provenance, settings.schemas)
        observer.follow(lambda: owned.by_number, metrics.lag_records)

        if settings.predictions.schema is not None:
            settings.predictions.schema()  # registers it: without it no reader could decode the predictions
        permission.result()  # no work is begun before this, so that a signal ends the process at once until then
        sys.setswitchinterval(SWITCH_S)
        needed = NeededOfTopics.by_worker(config)
        strangers = Strangers(config.worker.group, config.worker.id)
        topics = TopicWatch(config.kafka, needed, strangers, lambda: tuple(owned.by_number), metrics.show_topic_faults)
        health.watch_topics(lambda: topics.stopping_answers)
        run_until_stopped(loop, kafka, config, signals, topics)
    _log.info("stopped")
    return 0


def names_of(
    config: Config, decoder: Decoder, names: Names, wanted: Wanted, is_over: Callable[[], bool]
) -> Collection[int]:
    """Look for names in the topic, with a client of its own; return the keys that have none."""
    with closing(KafkaLogs(config, retry=RetryPolicy(_NAMES_S), ahead_kib=_NAMES_AHEAD_KIB)) as logs:
        return find_names(logs, config.topics.examples, wanted, decoder, names, is_over)


def about(config: Config) -> dict[str, str]:
    """Return the labels that distinguish this worker from others on a dashboard."""
    options = config.learner.options()
    return {
        "group": config.worker.group,
        "worker": config.worker.id,
        "topic": config.topics.examples,
        "method": options.name,
        "loss": options.loss,
    }


def assemble(
    config: Config,
    broker: Broker,
    new_model: ModelFactory,
    metrics: Metrics,
    health: LoopHealth,
    observer: Observer,
    provenance: Provenance | None = None,
    schemas: Schemas | None = None,
) -> tuple[Loop, OwnedPartitions]:
    """Make the loop of a worker, and all parts that it needs; return it, and the partitions that it will own.

    provenance  that of `config`; None: it is made here
    schemas     with which `new_model` reads framed records
    """
    worker = config.worker
    provenance = Provenance.of(config) if provenance is None else provenance
    exceptions = Exceptions.of(config)
    owned = OwnedPartitions(broker, provenance, new_model, metrics, exceptions, schemas=schemas)
    settings = LoopSettings(
        worker.fetch_records,
        CommitSettings(worker.commit_records, worker.commit_interval / 1000),
        worker.snapshot_interval / 1000,
        threads_of(config),
    )
    pool = ThreadPool(settings.threads)
    options = config.learner.options(config.limits.max_features_per_example)
    # A worker that merges nothing says nothing of it.
    recorder = MergeMetrics(metrics.registry if config.merging else None)
    if config.merging:
        metrics.watch_merging(recorder.facts)
    merging = MergingContext(broker, provenance, options, new_model, recorder, threads=settings.threads)
    return Loop(broker, owned, settings, Watchers(metrics, health, observer), pool, merging), owned


def threads_of(config: Config) -> int:
    """Return how many threads learn."""
    return config.worker.threads or usable_cores()
