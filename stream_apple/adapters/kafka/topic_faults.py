"""What is wrong with topics at this moment, by a comparison that `check`, a start, and a running worker share.

`stream-apple check` reports it. A worker that starts refuses what only an administrator can mend. A running worker
looks again every few seconds (`topic_watch.py`), because settings and replicas change while it works. Nothing here may
import numpy or numba.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Literal, NamedTuple

from confluent_kafka import IsolationLevel, TopicPartition

# The package types its admin module and does not mark what it exports.
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from stream_apple.adapters.kafka.admin import Cluster, broker_settings
from stream_apple.adapters.kafka.topics import Existing, visible
from stream_apple.config import Config
from stream_apple.errors import BrokerError
from stream_apple.records.times import time_text

FaultKind = Literal[
    "UNKNOWN_TOPIC_OR_PART", "INVALID_CONFIG", "NOT_ENOUGH_REPLICAS", "LEADER_NOT_AVAILABLE", "HANGING_TRANSACTION"
]
"""All but the last one are Kafka's names of the errors that clients get, or would get."""

HANG_S = 60.0
"""How long a transaction may be open before a worker reports it: the default `transaction.timeout.ms` of producers."""

_HARM = {
    "delete": "compaction removes records from the middle of the log, which are needed again",
    "compact": "any other policy deletes the only snapshot of a quiet partition. Does topics.models name a topic of "
    "another purpose?",
}
"""What another cleanup policy than the expected one would do."""

_REPLICATION = {
    "__transaction_state": "transaction.state.log.replication.factor",
    "__consumer_offsets": "offsets.topic.replication.factor",
}
"""Topics that brokers create at first use -> the setting of brokers that decides on their replicas."""


class TopicFault(NamedTuple):
    """One thing that is wrong with a topic.

    lasting  whether it stays until an administrator changes something
    """

    topic: str
    kind: FaultKind
    text: str
    lasting: bool = True

    @property
    def stops_answers(self) -> bool:
        """Whether no transaction that writes to a topic of the worker, or no fetch from it, can succeed."""
        return self.kind in {"NOT_ENOUGH_REPLICAS", "LEADER_NOT_AVAILABLE"} and self.topic not in _REPLICATION

    def __str__(self) -> str:
        return f"topic {self.topic}: {self.text}"


class NeededOfTopics(NamedTuple):
    """What a member of a group needs of topics all the time.

    policies  topic -> the only cleanup policy with which no record is lost that is needed again
    written   the topics to which it writes
    read      topics that it reads partition by partition, for which open transactions make it wait
    """

    policies: Mapping[str, str]
    written: frozenset[str]
    read: tuple[str, ...]

    @classmethod
    def by_worker(cls, config: Config) -> "NeededOfTopics":
        """Return what a worker needs. It reads logs twice; only compaction keeps snapshots."""
        topics = config.topics
        names = topics.names(merging=config.merging)
        outputs = frozenset(names) - {topics.examples}
        policies = dict.fromkeys(names, "delete") | {topics.models: "compact"}
        return cls(policies, outputs, (topics.examples, topics.predictions, topics.models))

    @classmethod
    def by_joiner(cls, config: Config) -> "NeededOfTopics":
        """Return what a joiner needs."""
        logs = (config.join.impressions, config.join.outcomes)
        written = frozenset({config.topics.examples, config.join.dead_letters})
        return cls(dict.fromkeys([*logs, *sorted(written)], "delete"), written, logs)

    @property
    def names(self) -> list[str]:
        """Return the names of all topics, those with a policy first."""
        return list(dict.fromkeys([*self.policies, *sorted(self.written)]))


def topic_faults(cluster: Cluster, needed: NeededOfTopics) -> Iterator[TopicFault]:
    """Yield what is wrong with these topics, and with those in which brokers keep offsets and transactions.

    A topic that this client may not see, and a setting that it may not read, are not known to be wrong. BrokerError if
    no broker answers.
    """
    if not cluster.has_controller:
        return
    found, absent = visible(cluster, needed.names)
    for name in absent:
        text = "expected an existing topic, found none: `stream-apple topics` creates it"
        # A broker that has just come back may know no topic for a moment.
        yield TopicFault(name, "UNKNOWN_TOPIC_OR_PART", text, lasting=False)
    for name, topic in found.items():
        policy = topic.settings.get("cleanup.policy")
        if policy is not None and policy != (expected := needed.policies.get(name, policy)):
            text = f"cleanup.policy: expected {expected}, found {policy}: {_HARM[expected]}"
            yield TopicFault(name, "INVALID_CONFIG", text)
        yield from unavailable(name, topic, written=name in needed.written)
    yield from internal_faults(cluster)


def unavailable(name: str, topic: Existing, *, written: bool) -> Iterator[TopicFault]:
    """Yield why a part of the topic can't be used now; `written` says whether this client writes to it."""
    if topic.leaderless:
        numbers = ", ".join(map(str, topic.leaderless))
        text = (
            f"partitions: expected a leader of each, found none of {numbers}: their brokers are down, or have lost the "
            f"disk that held them"
        )
        yield TopicFault(name, "LEADER_NOT_AVAILABLE", text, lasting=False)
    least = int(topic.settings.get("min.insync.replicas", "1"))
    lacking = [number for number, in_sync in topic.in_sync.items() if in_sync < least]
    if written and least > topic.replicas:
        # Brokers before KIP-966 refuse every write, however many of them run. Later ones take the replicas there are.
        text = f"min.insync.replicas: expected at most {topic.replicas} (the replicas there are), found {least}"
        yield TopicFault(name, "NOT_ENOUGH_REPLICAS", text)
    elif written and lacking:
        text = (
            f"replicas in sync: expected at least {least} (min.insync.replicas), found fewer of partitions "
            f"{', '.join(map(str, lacking))}: brokers refuse writes until enough of the others are back"
        )
        yield TopicFault(name, "NOT_ENOUGH_REPLICAS", text, lasting=False)


def internal_faults(cluster: Cluster) -> Iterator[TopicFault]:
    """Yield what is wrong with the topics of offsets and transactions, and why brokers can't create an absent one."""
    if not cluster.has_controller:
        return  # librdkafka's mock cluster does not answer such requests
    try:
        found, absent = visible(cluster, list(_REPLICATION))
        brokers = broker_settings(cluster) if absent else {}
    except BrokerError:
        return
    for name, topic in found.items():
        # Their own min.insync.replicas stops only old brokers, on which no worker has ever started.
        yield from (fault for fault in unavailable(name, topic, written=True) if not fault.lasting)
    count = len(cluster.brokers)
    for name in absent:
        setting = _REPLICATION[name]
        factor, number = max(((int(each.get(setting, 1)), key) for key, each in brokers.items()), default=(1, 0))
        if factor > count:
            text = (
                f"{setting}: expected at most {count} (the number of brokers), found {factor} at broker {number}: "
                f"Kafka can't create the topic, without which no worker can start"
            )
            yield TopicFault(name, "NOT_ENOUGH_REPLICAS", text)


class _Open(NamedTuple):
    """The oldest transaction that was open in a partition, when it was first seen, and its fault once it hangs."""

    offset: int
    since: float
    seen_at: str
    fault: TopicFault | None = None


class OpenTransactions:
    """Finds transactions that stay open, by the last stable offset of partitions: it stays where the oldest begins.

    Readers of committed records wait there. Timestamps of records do not show how old a transaction is, as producers
    choose them. So the first look only remembers what is open.
    """

    def __init__(self, hang_s: float = HANG_S, now: Callable[[], float] = time.monotonic) -> None:
        self._hang_s = hang_s
        self._now = now
        self._seen: dict[tuple[str, int], _Open] = {}

    def look(self, cluster: Cluster, topics: Collection[str], partitions: Collection[int]) -> list[TopicFault]:
        """Return the transactions that have been open for `hang_s` in partitions of these numbers.

        Partitions that do not exist, or of which no broker answers, have none.
        """
        places = [TopicPartition(topic, number) for topic in topics for number in partitions]
        stable, ends = (_ends(cluster, places, level) for level in _LEVELS)
        opened = {key: offset for key, offset in stable.items() if offset < ends.get(key, offset)}
        now, at, seen = self._now(), time_text(int(time.time()) * 1000), {}
        for key, offset in opened.items():
            each = self._seen.get(key)
            if each is None or each.offset != offset:
                each = _Open(offset, now, at)
            if each.fault is None and now - each.since >= self._hang_s:
                each = each._replace(fault=_hanging(cluster, *key, each))
            seen[key] = each
        self._seen = seen
        return [each.fault for each in seen.values() if each.fault is not None]

    @property
    def any_open(self) -> bool:
        """Whether the latest look has seen an open transaction, however young."""
        return bool(self._seen)


_LEVELS = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)


def _ends(cluster: Cluster, places: list[TopicPartition], level: IsolationLevel) -> dict[tuple[str, int], int]:
    """Return the ends of these partitions for a reader of that level, of those of which a broker answers."""
    if not places or not cluster.has_controller:
        return {}
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = cluster.client.list_offsets(
        dict.fromkeys(places, latest), isolation_level=level, request_timeout=cluster.request_s
    )
    found = {}
    for place, answer in asked.items():
        try:
            offset = cluster.result(answer, "").offset
        except BrokerError:
            continue
        if offset >= 0:  # a broker that has just come back may answer without an offset
            found[place.topic, place.partition] = offset
    return found


def _hanging(cluster: Cluster, topic: str, partition: int, found: _Open) -> TopicFault:
    tool = f"kafka-transactions.sh --bootstrap-server {cluster.bootstrap}"
    place = f"--topic {topic} --partition {partition}"
    text = (
        f"partition {partition}: expected transactions to end, found one open at offset {found.offset} since "
        f"{found.seen_at} or before. Readers of committed records "
        f"wait there. `{tool} describe-producers {place}` names its producer, `find-hanging` "
        f"says whether it can end, and `abort {place} --start-offset {found.offset}` ends it"
    )
    return TopicFault(topic, "HANGING_TRANSACTION", text, lasting=False)
