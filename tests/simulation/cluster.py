"""What survives a worker: topics, transactions, groups. All of it in memory, without clock, thread or chance."""

from collections.abc import Collection, Mapping, Sequence

from simulation.group import Group
from simulation.log import Message, PartitionLog
from simulation.network import Network
from simulation.transactions import Coordinator
from support.records import FakeRecord

from stream_apple.errors import ConfigurationError

NOW_MS = 1_700_000_000_000
"""The time of messages that are sent without one."""


class MemoryCluster:
    """Topics by name and number of partitions, and the network that carries the requests of producers to them."""

    answers_lost = False
    """Whether answers before a committed offset were removed, so that offsets go back."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._logs = {
            topic: [PartitionLog(topic, number) for number in range(partitions)] for topic, partitions in topics.items()
        }
        self._groups: dict[tuple[str, str], Group] = {}
        self.transactions = Coordinator()
        self.network = Network()

    def logs(self, topic: str) -> Sequence[PartitionLog]:
        """The partitions of a topic; ConfigurationError if it does not exist."""
        if topic not in self._logs:
            raise ConfigurationError(f"topic {topic}: expected an existing topic, found none")
        return self._logs[topic]

    def log(self, topic: str, partition: int) -> PartitionLog:
        """One partition of a topic."""
        return self.logs(topic)[partition]

    def group(self, name: str, topic: str) -> Group:
        """The group's members and offsets on one topic."""
        key = (name, topic)
        if key not in self._groups:
            self._groups[key] = Group(name, len(self.logs(topic)))
        return self._groups[key]

    def load(self, topic: str, records: Sequence[FakeRecord]) -> None:
        """Put plain records where they say that they are; what lies between is as if transactions had ended there."""
        for record in records:
            log = self.log(topic, record.number)
            log.skip_to(record.at)
            log.append(Message(record.named, record.payload, record.time_ms, tuple(record.extra or ())))

    def add_partitions(self, partitions: int, topics: Collection[str] | None = None) -> None:
        """Give these topics so many, or each; members hear of it in the next rebalance of their group."""
        for topic in self._logs if topics is None else topics:
            logs = self._logs[topic]
            logs += [PartitionLog(topic, number) for number in range(len(logs), partitions)]
        for (_, topic), group in self._groups.items():
            group.partitions = len(self._logs[topic])

    def renew(self, topic: str) -> None:
        """Delete the topic, and make it anew: it is empty."""
        self._logs[topic] = [PartitionLog(topic, log.number) for log in self.logs(topic)]

    def compact(self, topic: str) -> None:
        """Let the cleaner run over all partitions."""
        for log in self.logs(topic):
            log.compact()

    def time_out_transactions(self) -> None:
        """Abort every open transaction, as if all had been open for too long."""
        self.transactions.settle()
        for number in self.transactions.open_ids().values():
            self.transactions.time_out(number)
