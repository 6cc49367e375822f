"""A log that is read up to a record whose schema is not known."""

from collections.abc import Sequence

import pytest
from stream.joining.other_shapes import FRAMED, KnownSchemas
from structlog.typing import EventDict
from support.clock import Clock
from support.records import FakeRecord

from stream_apple.errors import GapError
from stream_apple.stream.joining.readable_log import ReadableLog
from stream_apple.stream.log.ports import AbortableError, Record
from stream_apple.stream.partitions.schema_gate import SchemaGate

PLAIN, WITH_A_FRAME = b"{}", b"\0" + FRAMED.to_bytes(4, "big")


class Reader:
    """Reads these values, then fails."""

    log_end = 9
    position = 0

    def __init__(self, *values: bytes) -> None:
        self._records = [FakeRecord(0, at, value, 1) for at, value in enumerate(values)]

    def fetch(self, most: int, timeout_s: float) -> Sequence[Record]:
        """The next."""
        assert timeout_s == 0
        if not self._records:
            raise GapError("no more")
        found, self._records = self._records[:most], self._records[most:]
        return found

    def close(self) -> None:
        """Nothing is open."""


def offsets(log: ReadableLog, most: int = 10) -> list[int]:
    """What is fetched."""
    return [record.offset() for record in log.fetch(most)]


def test_a_record_waits_for_its_schema(log_events: list[EventDict]) -> None:
    """And those behind it; those before it do not. After a second it is told, and when the schema is there."""
    clock = Clock(5.0)
    log = ReadableLog(Reader(PLAIN, WITH_A_FRAME, PLAIN), SchemaGate(4, KnownSchemas(known_after=4), clock))
    assert offsets(log) == [0]
    assert (log.gate.awaited_s, log.log_end) == (0.0, 9)
    assert offsets(log) == []
    clock.now += 2
    assert (offsets(log), log.gate.awaited_s) == ([], 2.0)
    assert [each["event"] for each in log_events] == ["schema_awaited"]
    assert {"partition": 4, "offset": 1, "schema": FRAMED}.items() <= log_events[0].items()
    assert offsets(log) == [1, 2]
    assert log.gate.awaited_s == 0
    assert [each["event"] for each in log_events] == ["schema_awaited", "schema_found"]
    with pytest.raises(AbortableError, match="no more"):
        log.fetch(10)


def test_without_a_registry_nothing_waits() -> None:
    """What is framed is for others to refuse."""
    log = ReadableLog(Reader(PLAIN, WITH_A_FRAME, PLAIN), SchemaGate(0, None))
    assert offsets(log, 2) == [0, 1]
    assert offsets(log) == [2]
