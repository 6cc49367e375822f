"""Three brokers as child processes, each also a controller, with a proxy between clients and each of them.

Brokers speak to each other directly, and so do clients that begin at `direct`. Other clients are given the addresses of
the proxies, which are there as long as the cluster. Sessions and elections have Kafka's own timeouts: a broker that is
killed is fenced after `broker.session.timeout.ms`, by default 9 s. The controllers elect a leader after
`controller.quorum.fetch.timeout.ms`, by default 2 s.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exports are not marked
    AdminClient,
    ClusterMetadata,
)
from support.kafka.broker import Broker, new_cluster_id
from support.kafka.proxy import Proxy
from support.ports import free_ports
from support.waiting import DEADLINE_S, wait_until

SIZE = 3
LEAST_IN_SYNC = 2
COORDINATION = ("__consumer_offsets", "__transaction_state")
"""The topics whose leaders coordinate groups and transactions."""
_JAVA_HEAP = "-Xmx256m"
_REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "inter.broker.listener.name": "INTERNAL",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


class Cluster:
    """Three brokers in KRaft mode; a context: they run inside, and are gone afterwards.

    brokers  by number, from 0 on: each can be started, killed, stopped, put to sleep, and woken
    proxies  in the same order
    """

    def __init__(self, directory: Path, jars: Path) -> None:
        ports = free_ports(3 * SIZE)
        clients, internal, controllers = ports[:SIZE], ports[SIZE : 2 * SIZE], ports[2 * SIZE :]
        self.proxies = [Proxy(port, seed=number) for number, port in enumerate(clients)]
        voters = ",".join(f"{number + 1}@127.0.0.1:{port}" for number, port in enumerate(controllers))
        cluster_id = new_cluster_id()
        self._internal = [f"127.0.0.1:{port}" for port in internal]
        self.brokers = [
            Broker(
                directory / f"broker-{number}",
                jars,
                {
                    **_REPLICATED,
                    "node.id": str(number + 1),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://127.0.0.1:{{port}},INTERNAL://127.0.0.1:{internal[number]},"
                    "CONTROLLER://127.0.0.1:{controller}",
                    "advertised.listeners": f"PLAINTEXT://{self.proxies[number].bootstrap},"
                    f"INTERNAL://127.0.0.1:{internal[number]}",
                },
                ports=(clients[number], controllers[number]),
                cluster_id=cluster_id,
                heap=_JAVA_HEAP,
            )
            for number in range(SIZE)
        ]

    def __enter__(self) -> Self:
        try:
            self.start(range(SIZE))
            wait_until(lambda: self._count() == SIZE, f"{SIZE} brokers in the cluster")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The proxies' addresses for `bootstrap.servers`."""
        return ",".join(proxy.bootstrap for proxy in self.proxies)

    @property
    def direct(self) -> str:
        """Addresses for clients whose connections avoid the proxies."""
        return ",".join(self._internal)

    def start(self, numbers: Iterable[int]) -> None:
        """Start these brokers all together, as two of three are needed for any to answer; wait until each answers."""
        wanted = [self.brokers[number] for number in numbers]
        for broker in wanted:
            broker.launch()
        for broker in wanted:
            broker.await_answer()

    def close(self) -> None:
        """Kill all brokers and end all connections."""
        for broker in self.brokers:
            broker.wake()
            broker.kill()
        for proxy in self.proxies:
            proxy.close()

    def mend(self) -> None:
        """Undo all harm, and wait until each partition has all replicas in sync and its first leader."""
        for proxy in self.proxies:
            proxy.restore()
        for broker in self.brokers:
            broker.wake()
        self.start(number for number, broker in enumerate(self.brokers) if not broker.running)
        wait_until(self.in_sync, "all replicas in sync", pause_s=0.2)
        client = AdminClient({"bootstrap.servers": self.direct})  # it must outlive its call
        client.elect_leaders(ElectionType.PREFERRED, None).result(DEADLINE_S)
        wait_until(self._is_led_by_first_replicas, "the first leaders", pause_s=0.2)

    def leader(self, topic: str, partition: int) -> int:
        """The number of the broker that leads a partition."""
        known = wait_until(self._metadata, "an answer of the cluster")
        assert known is not None
        return int(known.topics[topic].partitions[partition].leader) - 1

    def _is_led_by_first_replicas(self) -> bool:
        known = self._metadata()
        return known is not None and all(
            part.leader == part.replicas[0] for topic in known.topics.values() for part in topic.partitions.values()
        )

    def in_sync(self, *topics: str) -> bool:
        """Whether all replicas of these topics, or of all, are in sync."""
        known = self._metadata()
        if known is None:
            return False
        found = [known.topics[topic] for topic in topics or known.topics]
        return all(len(part.isrs) == SIZE for topic in found for part in topic.partitions.values())

    def available(self, topics: Iterable[str]) -> bool:
        """Whether each partition of these topics has a leader that works, and enough replicas for writes.

        This does not ask brokers that are down or asleep, and takes no notice of proxies.
        """
        known = self._metadata()
        working = {number + 1 for number in self._working()}
        return known is not None and all(
            topic in known.topics
            and all(
                part.leader in working and len(working & set(part.isrs)) >= LEAST_IN_SYNC
                for part in known.topics[topic].partitions.values()
            )
            for topic in topics
        )

    def _working(self) -> list[int]:
        return [number for number, broker in enumerate(self.brokers) if broker.working]

    def _metadata(self) -> ClusterMetadata | None:
        """What a new client learns from the brokers that work; None without an answer within a second."""
        addresses = ",".join(self._internal[number] for number in self._working())
        with suppress(KafkaException):
            return AdminClient({"bootstrap.servers": addresses, "log_level": 0}).list_topics(timeout=1)
        return None

    def _count(self) -> int:
        known = self._metadata()
        return 0 if known is None else len(known.brokers)


def coordinator_partition(identity: str, partitions: int = 3) -> int:
    """The partition of `__consumer_offsets` or `__transaction_state` whose leader coordinates a group or an id.

    As in Kafka: the absolute value of Java's hash of the text, modulo the number of partitions.
    """
    number = 0
    for character in identity:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    return min(number, (1 << 32) - number) % partitions
