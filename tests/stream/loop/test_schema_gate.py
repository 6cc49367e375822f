"""A record whose schema is not known holds its own partition, whatever else happens to that, and no other."""

from typing import Any

import pytest
from structlog.testing import capture_logs
from support.records import FakeRecord

from stream_apple.stream.loop.schema_gate import LOGGED_AFTER_S, SchemaGate


class Registry:
    """Knows the schemas that it has been told."""

    def __init__(self) -> None:
        self.schemas: set[int] = set()
        self.asked: list[int] = []
        self.answered = True

    def known(self, schema: int) -> bool:
        """Remember the question."""
        self.asked.append(schema)
        return schema in self.schemas

    def fault(self, schema: int) -> str:
        """Any words, as soon as it has answered."""
        return f"{schema} is missing" if self.answered else ""

    def parsed(self, schema: int, payload: bytes) -> object:
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
    """As much of a partition as the gate knows."""

    def __init__(self, number: int) -> None:
        self.number, self.model, self.awaited_schema = number, Model(), None


def frame(schema: int) -> bytes:
    """A record of that schema."""
    return b"\0" + schema.to_bytes(4, "big") + b"x"


def records(*values: bytes | None) -> list[Any]:
    """From offset 10 on."""
    return [FakeRecord(0, 10 + number, value, 1) for number, value in enumerate(values)]


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


@pytest.fixture
def gate(broker: Any, registry: Registry, clock: list[float]) -> SchemaGate:
    """The gate, whose clock is set by hand."""
    return SchemaGate(broker, registry, lambda: clock[0])


def test_what_can_be_read_passes_and_the_rest_comes_again(gate: Any, registry: Registry, broker: Held) -> None:
    """Up to the first unknown schema; each schema is asked for once in a batch."""
    partition = OnePartition(3)
    registry.schemas = {7}
    batch = records(b"{}", None, frame(7), frame(7), frame(8), b"{}")
    assert gate.readable(partition, batch) == batch[:4]
    assert registry.asked == [7, 8]
    assert broker.calls == [("pause", 3, 14)]
    gate.iterate([partition, OnePartition(4)])
    assert broker.calls == [("pause", 3, 14)]
    registry.schemas = {7, 8}
    gate.iterate([partition])
    assert broker.calls == [("pause", 3, 14), ("resume", 3)]
    assert partition.awaited_schema is None
    assert gate.readable(partition, batch) == batch
    gate.iterate([partition])
    assert broker.calls == [("pause", 3, 14), ("resume", 3)]


def test_who_is_held_at_the_end_of_a_round_is_released_there(gate: Any, registry: Registry, broker: Held) -> None:
    """To release it here would lose what lies between the boundary and the record."""
    partition = OnePartition(0)
    gate.readable(partition, records(frame(1)))
    partition.model.held = object()
    registry.schemas = {1}
    gate.iterate([partition])
    assert broker.calls == [("pause", 0, 10)]
    assert partition.awaited_schema is None


def test_a_wait_is_told_once_and_so_is_its_end(gate: Any, registry: Registry, clock: list[float]) -> None:
    """A schema that comes at once, or whose first answer is on its way, is nobody's business."""
    partition = OnePartition(0)
    gate.readable(partition, records(frame(1)))
    with capture_logs() as logs:
        gate.iterate([partition])
        registry.answered = False
        clock[0] += LOGGED_AFTER_S
        gate.iterate([partition])
        registry.answered = True
        for _ in range(3):
            gate.iterate([partition])
        clock[0] += 5.0
        registry.schemas = {1}
        gate.iterate([partition])
        gate.readable(partition, records(frame(2)))
        registry.schemas = {1, 2}
        gate.iterate([partition])
    assert [(each["event"], each["schema"], each["offset"]) for each in logs] == [
        ("schema_awaited", 1, 10),
        ("schema_found", 1, 10),
    ]
    assert logs[0]["error"] == "1 is missing"
    assert logs[1]["seconds"] == LOGGED_AFTER_S + 5.0


def test_without_a_registry_nothing_is_looked_at(broker: Any) -> None:
    """Whatever the records are: they are for whoever decodes them."""
    batch = records(frame(1))
    assert SchemaGate(broker, None).readable(OnePartition(0), batch) is batch  # type: ignore[arg-type]
    assert broker.calls == []
