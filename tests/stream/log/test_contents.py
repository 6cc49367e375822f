"""The frame of a value may be in a header of its record: each reader of records sees both, and no dead letter does."""

import json
from typing import Any

import pytest
from support.records import SETTINGS, FakeRecord, dead_letter_headers, new_model

from stream_apple.monitoring.observer import WorkerObserver
from stream_apple.records.framing import HEADER
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.log.contents import content_of, contents_of, headers_of
from stream_apple.stream.log.ports import Header
from stream_apple.stream.model.dead_letters import Reject, dead_letter
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.partitions.schema_gate import SchemaGate
from stream_apple.stream.positions.lineage import Lineage

GUID = "89791762-2336-7186-9674-299b90a802e2"
FRAME = b"\1" + bytes.fromhex(GUID.replace("-", ""))
START = 1_700_000_000_000


class Schemas:
    """A registry that has one schema, whose payloads are JSON without braces."""

    def __init__(self) -> None:
        self.is_known = True

    def known(self, schema: int | str) -> bool:
        """As the test says."""
        assert schema == GUID
        return self.is_known

    def fault(self, schema: int | str) -> str:
        """As the test says."""
        return f"{schema} is missing"

    def parsed(self, schema: int | str, payload: bytes) -> object:
        """What there is between the braces."""
        assert schema == GUID
        return json.loads(b"{" + payload + b"}")


def record(at: int, value: bytes | None, *headers: Header) -> FakeRecord:
    """One at an offset."""
    return FakeRecord(0, at, value, START, None, list(headers))


FRAMED = record(1, b'"label": 1, "x": 2, "city": "Rome"', (HEADER, FRAME))
PLAIN = record(2, b'{"label": 1, "x": 2, "city": "Rome"}')


def test_a_guid_in_a_header_is_read_like_a_number_in_front() -> None:
    """The model learns the same from a record without any schema; what is no example stays as it came."""
    schemas = Schemas()
    settings = SETTINGS._replace(mapping=InputMapping(features="*"), schemas=schemas)
    broken = record(3, b"\0", (HEADER, FRAME), ("trace", b"7"))
    models = [PartitionModel("t", 0, Lineage(0, "0" * 16), settings, settings.decoder()) for _ in range(2)]
    with pytest.raises(json.JSONDecodeError):  # a decoder of a registry would say it in words
        models[0].process([broken])
    results = [model.process([each]) for model, each in zip(models, (FRAMED, PLAIN), strict=True)]
    assert [each.rejects for each in results] == [[], []]
    first, second = (model.learner.digest() for model in models)
    assert first == second
    letter = dead_letter(Reject(FRAMED, Reason.MALFORMED, "x"), "t", "0" * 16, 1000)
    assert letter.value == FRAMED.payload
    assert letter.headers[0] == (HEADER, FRAME)


def test_it_is_awaited_like_one_in_front() -> None:
    """The event and the metric name the GUID."""
    schemas = Schemas()
    schemas.is_known = False
    gate = SchemaGate(0, schemas)
    assert gate.readable([PLAIN, FRAMED]) == [PLAIN]
    assert gate.awaited is not None
    assert (gate.awaited.schema, gate.awaited.offset) == (GUID, 1)
    schemas.is_known = True
    assert gate.opens()


def test_names_are_read_from_such_records() -> None:
    """The page of a worker shows names of features, not hashes."""
    settings = SETTINGS._replace(mapping=InputMapping(features="*"), schemas=Schemas())
    watch = WorkerObserver(decoder=settings.decoder())
    model = new_model()
    watch._sample = FRAMED
    assert watch.take_names()
    assert "city=Rome" in str(watch.names.__dict__)
    assert model is not None


def test_without_a_registry_headers_do_not_matter() -> None:
    """They are not even read."""

    class Silent(FakeRecord):
        def headers(self) -> None:
            raise AssertionError

    silent = Silent(0, 1, b"{}", START)
    assert contents_of([silent, silent], framed=False) == [b"{}", b"{}"]
    assert content_of(silent, framed=False) == b"{}"


class Broken:
    """A message of confluent-kafka's that has a header whose name is not UTF-8: to ask twice ends the process."""

    def __init__(self) -> None:
        self.kept: Any = None
        self.asked = 0

    def headers(self) -> Any:
        """Raise at the first call."""
        self.asked += 1
        if self.kept is None:
            assert self.asked == 1
            raise SystemError("returned a result with an exception set")
        return self.kept

    def set_headers(self, headers: Any) -> None:
        """Keep them."""
        self.kept = headers

    def value(self) -> bytes:
        """Any."""
        return b"{}"


def test_headers_that_can_not_be_read_are_asked_for_once() -> None:
    """Whoever asks again is told the same."""
    broken: Any = Broken()
    assert content_of(broken, framed=True) == b"{}"
    assert headers_of(broken) is None
    assert content_of(broken, framed=True) == b"{}"


def test_the_forms_in_which_clients_give_headers() -> None:
    """None, a list, and a mapping; an empty one is none that can't be read."""
    assert headers_of(FakeRecord(0, 1, b"", START)) == []
    assert headers_of(record(1, b"")) == []
    assert headers_of(record(1, b"", ("a", b"1"), ("a", None))) == [("a", b"1"), ("a", None)]
    mapped: Any = {"a": b"1"}
    assert headers_of(record(1, b"")._replace(extra=mapped)) == [("a", b"1")]
    assert len(dead_letter_headers(Reject(record(1, b""), Reason.BAD_ID, "m"), "t", "m")) == 6
