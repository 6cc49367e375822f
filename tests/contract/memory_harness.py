"""The contract suite's harness on the broker in memory."""

from collections.abc import Callable, Mapping

from contract.harness import Seen, seen
from simulation.cluster import MemoryCluster
from simulation.log import Message
from simulation.memory_broker import Member, MemoryBroker

from stream_apple.stream.log.ports import Committed


class _Foreign:
    def __init__(self, harness: "MemoryHarness", transactional_id: str) -> None:
        self._harness = harness
        self._coordinator = harness.cluster.transactions
        self._producer = self._coordinator.init(transactional_id)

    def append(self, topic: str, partition: int, *values: bytes) -> None:
        for value in values:
            log = self._harness.cluster.log(topic, partition)
            self._coordinator.add(self._producer, log)
            self._coordinator.append(self._producer, log, Message(value, value, 1))

    def offsets(self, offsets: Mapping[int, int]) -> None:
        group = self._harness.cluster.group(self._harness.group, self._harness.examples)
        self._coordinator.add(self._producer, group)
        self._coordinator.prepare(self._producer, group, {p: Committed(at, "") for p, at in offsets.items()})

    def commit(self) -> None:
        self._coordinator.end(self._producer, committed=True)

    def abort(self) -> None:
        if self._producer.transactional_id in self._coordinator.open_ids():
            self._coordinator.end(self._producer, committed=False)


class MemoryHarness:
    """See `harness.Harness`."""

    examples = "examples"
    outputs = "outputs"
    models = "models"
    missing = "missing"
    group = "group"

    def __init__(self) -> None:
        self.cluster = MemoryCluster({self.examples: 2, self.outputs: 2, self.models: 2})

    def broker(self, instance: str, *, short_session: bool = False) -> MemoryBroker:  # noqa: ARG002  there is no time
        """A connection."""
        return MemoryBroker(self.cluster, Member(self.group, instance, self.transactional_id(instance)), self.examples)

    def append(self, topic: str, partition: int, *values: bytes, key: bytes | None = None) -> list[int]:
        """Plain records."""
        log = self.cluster.log(topic, partition)
        return [log.append(Message(key or value, value, 1)) for value in values]

    def foreign(self, transactional_id: str) -> _Foreign:
        """Begin."""
        return _Foreign(self, transactional_id)

    def transactional_id(self, instance: str) -> str:
        """One to one."""
        return f"{self.group}.{instance}"

    def read(self, topic: str, partition: int) -> list[Seen]:
        """All that is committed."""
        return [seen(record) for record in self.cluster.log(topic, partition).committed()]

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """At once."""
        self.cluster.log(topic, partition).delete_before(offset)

    def compact(self, topic: str, partition: int) -> None:
        """At once."""
        self.cluster.log(topic, partition).compact()

    def expire(self, instance: str, others: Callable[[], object]) -> None:
        """At once."""
        self.cluster.group(self.group, self.examples).expire(instance)
        others()

    def close(self) -> None:
        """Nothing is held."""
