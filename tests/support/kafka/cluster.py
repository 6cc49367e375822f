"""Three brokers as child processes, each also a controller, with a proxy between clients and each of them.

Brokers speak to each other directly. Clients are given the addresses of the proxies, which are there as long as the
cluster. Sessions and elections have Kafka's own timeouts: a broker that is killed is fenced after
`broker.session.timeout.ms`, by default 9 s. The controllers elect a leader after `controller.quorum.fetch.timeout.ms`,
by default 2 s.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient
from support.kafka.broker import Broker, new_cluster_id
from support.kafka.proxy import Proxy
from support.ports import free_ports
from support.waiting import wait_until

SIZE = 3
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
        """The same without proxies, for the first contact; later ones go where the brokers say, through the proxies."""
        return ",".join(broker.bootstrap for broker in self.brokers)

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

    def leader(self, topic: str, partition: int) -> int:
        """The number of the broker that leads a partition."""
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        found = client.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader
        return int(found) - 1

    def in_sync(self, *topics: str) -> bool:
        """Whether all replicas of these topics are in sync."""
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        known = client.list_topics(timeout=10).topics
        return all(len(part.isrs) == SIZE for topic in topics for part in known[topic].partitions.values())

    def _count(self) -> int:
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return len(client.list_topics(timeout=10).brokers)


def coordinator_partition(identity: str, partitions: int = 3) -> int:
    """The partition of `__consumer_offsets` or `__transaction_state` whose leader coordinates a group or an id.

    As in Kafka: Java's hash of the text, made positive, modulo the number of partitions.
    """
    number = 0
    for character in identity:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    return (number & 0x7FFFFFFF) % partitions
