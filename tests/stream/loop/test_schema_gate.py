"""A record whose schema is not known holds its own partition, whatever else happens to that, and no other."""

from typing import Any

import pytest
from structlog.testing import capture_logs
from support.records import FakeRecord

from stream_apple.stream.log.ports import Record
from stream_apple.stream.loop.owned_partitions import OwnedPartitions
from stream_apple.stream.partitions.schema_gate import LOGGED_AFTER_S, SchemaGate


class Registry:
    """Knows the schemas that it has been told."""

    def __init__(self) -> None:
        self.schemas: set[int | str] = set()
        self.asked: list[int | str] = []
        self.answered = True

    def known(self, schema: int | str) -> bool:
        """Remember the question."""
        self.asked.append(schema)
        return schema in self.schemas

    def fault(self, schema: int | str) -> str:
        """Any words, as soon as it has answered."""
        return f"{schema} is missing" if self.answered else ""

    def parsed(self, schema: int | str, payload: bytes) -> object:
        """Nobody asks for that here."""
        raise NotImplementedError


class Held:
    """What a broker is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def pause(self, partition: int, offset: int) -> None:
        """Remember it."""
        self.calls.append(("pause", partition, offset))

    def resume(self, partition: int) -> None:
        """Remember it."""
        self.calls.append(("resume", partition))


class Model:
    """At the end of a round, or not."""

    held: object | None = None


class OnePartition:
    """As much of a partition as is needed here."""

    def __init__(self, number: int, gate: SchemaGate) -> None:
        self.number, self.model, self.gate = number, Model(), gate


class Worker:
    """What a worker owns, whose clock is set by hand."""

    def __init__(self, broker: Any, registry: Any, clock: list[float], *numbers: int) -> None:
        nothing: Any = None
        now = lambda: clock[0]  # noqa: E731
        self.owned = OwnedPartitions(broker, nothing, nothing, nothing, now=now, schemas=registry)
        self.partitions: Any = {number: OnePartition(number, SchemaGate(number, registry, now)) for number in numbers}
        self.owned.by_number = self.partitions

    def readable(self, batch: list[Any]) -> list[Record]:
        """Those of a batch of one partition that pass."""
        return [record for _, passed in self.owned.sort(batch) for record in passed]

    def iterate(self) -> None:
        """Look whether schemas have come."""
        self.owned.go_on_where_schemas_came()

    def awaited(self, number: int) -> object:
        """What a partition waits for."""
        return self.partitions[number].gate.awaited


def frame(schema: int) -> bytes:
    """A record of that schema."""
    return b"\0" + schema.to_bytes(4, "big") + b"x"


def records(*values: bytes | None, partition: int = 0) -> list[Any]:
    """From offset 10 on."""
    return [FakeRecord(partition, 10 + number, value, 1) for number, value in enumerate(values)]


@pytest.fixture
def clock() -> list[float]:
    """Seconds, to be set."""
    return [100.0]


@pytest.fixture
def registry() -> Registry:
    """It knows nothing."""
    return Registry()


@pytest.fixture
def broker() -> Held:
    """It has been told nothing."""
    return Held()


def test_what_can_be_read_passes_and_the_rest_comes_again(registry: Registry, broker: Held, clock: list[float]) -> None:
    """Up to the first unknown schema; each schema is asked for once in a batch."""
    worker = Worker(broker, registry, clock, 3, 4)
    registry.schemas = {7}
    batch = records(b"{}", None, frame(7), frame(7), frame(8), b"{}", partition=3)
    assert worker.readable(batch) == batch[:4]
    assert registry.asked == [7, 8]
    assert broker.calls == [("pause", 3, 14)]
    worker.iterate()
    assert broker.calls == [("pause", 3, 14)]
    registry.schemas = {7, 8}
    worker.iterate()
    assert broker.calls == [("pause", 3, 14), ("resume", 3)]
    assert worker.awaited(3) is None
    assert worker.readable(batch) == batch
    worker.iterate()
    assert broker.calls == [("pause", 3, 14), ("resume", 3)]


def test_who_is_held_at_the_end_of_a_round_is_released_there(
    registry: Registry, broker: Held, clock: list[float]
) -> None:
    """To release it here would lose what lies between the boundary and the record."""
    worker = Worker(broker, registry, clock, 0)
    assert worker.readable(records(frame(1))) == []
    worker.partitions[0].model.held = object()
    registry.schemas = {1}
    worker.iterate()
    assert broker.calls == [("pause", 0, 10)]
    assert worker.awaited(0) is None


def test_a_wait_is_told_once_and_so_is_its_end(registry: Registry, broker: Held, clock: list[float]) -> None:
    """A schema that comes at once, or whose first answer is on its way, is nobody's business."""
    worker = Worker(broker, registry, clock, 0)
    worker.readable(records(frame(1)))
    with capture_logs() as logs:
        worker.iterate()
        registry.answered = False
        clock[0] += LOGGED_AFTER_S
        worker.iterate()
        registry.answered = True
        for _ in range(3):
            worker.iterate()
        clock[0] += 5.0
        registry.schemas = {1}
        worker.iterate()
        worker.readable(records(frame(2)))
        registry.schemas = {1, 2}
        worker.iterate()
    assert [(each["event"], each["schema"], each["offset"]) for each in logs] == [
        ("schema_awaited", 1, 10),
        ("schema_found", 1, 10),
    ]
    assert logs[0]["error"] == "1 is missing"
    assert logs[1]["seconds"] == LOGGED_AFTER_S + 5.0


def test_without_a_registry_nothing_is_looked_at(broker: Held, clock: list[float]) -> None:
    """Whatever the records are: they are for whoever decodes them."""
    batch = records(frame(1))
    assert Worker(broker, None, clock, 0).readable(batch) == batch
    assert broker.calls == []
