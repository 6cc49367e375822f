"""The composition root of the joiner: every part is made here, once, and handed to the parts that need it."""

import structlog

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity, checked_properties
from stream_apple.adapters.kafka.preflight.join_check import check_before_joining
from stream_apple.adapters.kafka.strangers import Strangers
from stream_apple.adapters.kafka.topic_faults import NeededOfTopics
from stream_apple.adapters.kafka.topic_watch import TopicWatch
from stream_apple.adapters.registry.schema_registry import registry_of
from stream_apple.app import identity
from stream_apple.app.service import run_until_stopped
from stream_apple.config import Config
from stream_apple.http.application import read_only, routes
from stream_apple.http.listener import listen
from stream_apple.http.server import HttpServer
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.join_metrics import JoinMetrics
from stream_apple.records.message.message_size import largest_dead_letter
from stream_apple.signals import Signals
from stream_apple.stream.joining.join_loop import JoinLoop, JoinLoopSettings
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.log.ports import nothing_to_abort
from stream_apple.stream.loop.transaction import CommitSettings

_AHEAD_KIB = 4 << 10
"""KiB that the client may fetch ahead of each log of a partition: impressions wait in the log, not in memory."""
_ANSWER_S = 3.0

_log = structlog.get_logger()


def join_until_stopped(config: Config, signals: Signals) -> int:
    """Join until SIGTERM or SIGINT, then return 0; StreamAppleError if the joiner can't go on.

    config  with the joiners' group as `worker.group`, and a worker.id
    """
    worker, rule = config.worker, JoinRule.of(config)
    properties = checked_properties(config.kafka, worker.commit_interval, largest_dead_letter(rule.max_bytes))
    schemas = registry_of(config)
    listener = listen(config.http.host, *config.http.ports)
    metrics, health = JoinMetrics(), Health()
    with HttpServer(read_only(routes(health, metrics.registry)), listener) as server:
        _log.info("started", http_port=server.port, config=config.redacted())
        health.compiled()
        who = Identity(worker.group, worker.id, worker.transactional_id)
        kafka = KafkaBroker(properties, who, rule.impressions, reader_ahead_kib=_AHEAD_KIB)
        for watcher in (metrics, health):
            watcher.watch_brokers(lambda: kafka.reachable)
        # The first question also waits for the cluster, and raises the reason if it does not answer.
        with nothing_to_abort():
            partitions = kafka.partition_count(config.topics.examples)
        metrics.describe(worker.group, config.topics.examples, partitions)
        cluster = Cluster(config.kafka, _ANSWER_S)
        check_before_joining(cluster, config)
        identity.hold(config, str(cluster.id))
        loop = JoinLoop(
            kafka,
            rule,
            config.join.dead_letters,
            JoinLoopSettings(
                worker.fetch_records,
                CommitSettings(worker.commit_records, worker.commit_interval / 1000),
                worker.accepted_gaps,
                worker.group,
            ),
            metrics,
            health,
            schemas=schemas,
        )
        needed = NeededOfTopics.by_joiner(config)
        strangers = Strangers(worker.group, worker.id)
        topics = TopicWatch(config.kafka, needed, strangers, lambda: tuple(loop.owned), metrics.show_topic_faults)
        health.watch_topics(lambda: topics.stopping_answers)
        run_until_stopped(loop, kafka, config, signals, topics)
    _log.info("stopped")
    return 0
