"""Payloads in Avro and Protocol Buffers become Python's own types, or are refused in words that are always the same."""

import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.adapters.registry.avro_payloads import avro_parser
from stream_apple.adapters.registry.payloads import SchemaError
from stream_apple.adapters.registry.protobuf_payloads import protobuf_parser
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

CARRIER = '{"type": "enum", "name": "air.Carrier", "symbols": ["AA", "DL"]}'
FLIGHT: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "delayed", "type": ["null", "boolean"]},
        {"name": "carrier", "type": "air.Carrier"},
        {"name": "scheduled", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "trip", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "stops", "type": {"type": "array", "items": "string"}},
        {"name": "at", "type": {"type": "map", "values": "double"}},
    ],
}
HELD = {
    "delayed": True,
    "carrier": "DL",
    "scheduled": datetime(2026, 1, 5, 7, tzinfo=UTC),
    "day": date(2026, 1, 5),
    "fare": Decimal("99.50"),
    "trip": UUID(int=5),
    "stops": ["ORD"],
    "at": {"height": 2.5},
}
PROTO = """
syntax = "proto3";
package air;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "air/carrier.proto";
message Flight {
  message Leg { string from = 1; }
  bool delayed = 1;
  optional double fare = 2;
  Carrier carrier = 3;
  google.protobuf.Timestamp scheduled = 4;
  google.protobuf.Int64Value seats = 5;
  repeated string stops = 6;
  map<bool, double> at = 7;
  repeated Leg legs = 8;
  oneof gate { int32 number = 9; string name = 10; }
}
message Other { int32 n = 1; }
"""
IMPORTED = {"air/carrier.proto": 'syntax = "proto3"; package air; enum Carrier { NONE = 0; DL = 1; }'}


def avro(schema: Any, held: object) -> bytes:
    """The payload, without its frame."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, {}, _write_hint=False), held)
    return stream.getvalue()


@pytest.fixture(scope="module")
def flight() -> Callable[[bytes], object]:
    """The parser of Avro."""
    return avro_parser(json.dumps(FLIGHT), [CARRIER])


@pytest.fixture(scope="module")
def proto() -> Callable[[bytes], object]:
    """The parser of Protocol Buffers."""
    return protobuf_parser(PROTO, IMPORTED)


def own_schema() -> dict[str, Any]:
    """The schema with what it refers to inside."""
    fields = [each | {"type": json.loads(CARRIER)} if each["name"] == "carrier" else each for each in FLIGHT["fields"]]
    return FLIGHT | {"fields": fields}


def test_avro_keeps_every_logical_type_and_its_features_are_those_of_the_mapping(
    flight: Callable[[bytes], object],
) -> None:
    """A date is its midnight, a decimal a number, an enum and a UUID are categories."""
    found = flight(avro(own_schema(), HELD))
    assert found == HELD
    mapping = InputMapping(label="delayed", features="*", timestamp="scheduled", times=("day",), separator="^")
    example = RecordMapper(mapping).example(found).example
    assert example.label == 1.0
    assert example.timestamp_ms == 1_767_596_400_000
    assert example.features == {
        "": {"carrier=DL": 1.0, "fare": 99.5, f"trip={UUID(int=5)}": 1.0, "stops=ORD": 1.0},
        "day": {"hour=0": 1.0, "weekday=monday": 1.0, "month=1": 1.0},
        "at": {"height": 2.5},
    }


def test_a_topic_of_several_kinds_of_records_is_read() -> None:
    """Its schema is a union of names that other schemas have, or one of these names; each record was a dead letter."""
    records = [
        '{"type": "record", "name": "air.Flight", "fields": [{"name": "delay", "type": "int"}]}',
        '{"type": "record", "name": "air.Gate", "fields": [{"name": "open", "type": "boolean"}]}',
    ]
    parse = avro_parser('["air.Flight", "air.Gate"]', records)
    assert parse(b"\x00\x0e") == {"delay": 7}
    assert parse(b"\x02\x01") == {"open": True}
    assert avro_parser('"air.Gate"', records)(b"\x00") == {"open": False}


def test_fields_may_be_called_like_what_a_message_of_the_library_has() -> None:
    """A field hides an attribute of its name: the first such message ended the worker, and each one after it."""
    names = ("DESCRIPTOR", "HasField", "ParseFromString", "ListFields")
    fields = "".join(f" optional string {name} = {number};" for number, name in enumerate(names, 1))
    parse = protobuf_parser(f'syntax = "proto3"; message M {{{fields} }}', {})
    assert parse(b"\0\x0a\x01a\x12\x01b\x1a\x01c\x22\x01d") == dict(zip(names, "abcd", strict=True))
    assert parse(b"\0\x0a\x01a") == {"DESCRIPTOR": "a"}


def test_protobuf_tells_what_is_set(proto: Callable[[bytes], object]) -> None:
    """What a writer can leave unset is absent; what it can't has its default; the numbers in front name the message."""
    assert proto(b"\0") == {"delayed": False, "carrier": "NONE", "stops": [], "at": {}, "legs": []}
    when = Timestamp(seconds=1_700_000_000, nanos=500_000_000).SerializeToString()
    body = (
        b"\x08\x01\x11" + bytes(8) + b"\x18\x01\x22" + bytes([len(when)]) + when + b"\x2a\x02\x08\x07"
        b"\x32\x03ORD\x3a\x0b\x08\x01\x11" + bytes(7) + b"\x40" + b"\x42\x05\x0a\x03JFK\x52\x01B"
    )
    assert proto(b"\x02\x00" + body) == {
        "delayed": True,
        "fare": 0.0,
        "carrier": "DL",
        "scheduled": datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC),
        "seats": 7,
        "stops": ["ORD"],
        "at": {"true": 2.0},
        "legs": [{"from": "JFK"}],
        "name": "B",
    }
    assert proto(b"\x02\x02\x08\x05") == {"n": 5}
    assert proto(b"\x04\x00\x00\x0a\x01x") == {"from": "x"}
    assert proto(b"\0\x18\x63") == {"delayed": False, "carrier": 99, "stops": [], "at": {}, "legs": []}


def test_protobuf_holds_what_json_holds() -> None:
    """A Struct is a map, and its values are JSON's: their names would be those of the library's fields."""
    held = {"page": {"words": ["a", "b"], "height": 2.5}, "known": True, "none": None, "list": [1.0, {"deep": "x"}]}
    struct = Struct()
    struct.update(held)
    body, took = struct.SerializeToString(), Duration(seconds=2, nanos=500_000_000).SerializeToString()
    parse = protobuf_parser(
        'syntax = "proto3"; import "google/protobuf/struct.proto"; import "google/protobuf/duration.proto"; '
        "message M { google.protobuf.Struct all = 1; google.protobuf.Duration took = 2; google.protobuf.Value any = 3; "
        "}",
        {},
    )
    assert parse(b"\0\x0a" + bytes([len(body)]) + body + b"\x12" + bytes([len(took)]) + took) == {
        "all": held,
        "took": 2.5,
    }
    assert parse(b"\0\x0a\0\x1a\0") == {"all": {}, "any": None}


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(
    flight: Callable[[bytes], object], proto: Callable[[bytes], object], payload: bytes
) -> None:
    """Twice with the same words, as a dead letter is made again by whoever replays."""
    for parse in (flight, proto):
        told = []
        for _ in range(2):
            try:
                assert isinstance(parse(payload), dict)
            except RefusedError as error:
                told.append((error.reason, str(error)))
        assert len(set(told)) <= 1
        assert len(told) != 1


@pytest.mark.parametrize(
    ("kind", "payload", "expected"),
    [
        ("avro", b"", "expected Avro of its schema, found bytes that end within a value"),
        ("avro", b"\x02\x01\x04", "found bytes that do not fit it"),
        ("avro", avro(own_schema(), HELD) + b"x", "found 1 bytes after it"),
        ("proto", b"", "expected the number of a message of its schema"),
        ("proto", b"\xff\xff\xff\xff\xff\xff", "expected the number of a message of its schema"),
        ("proto", b"\x80\x02", "at most 16 numbers of a message"),
        ("proto", b"\x02\x06", "expected one of 2 messages of its schema, found number 3"),
        ("proto", b"\0\x08", "expected a Protocol Buffers message of its schema, found bytes that do not fit it"),
        ("proto", b"\0\x32\x01\xff", "expected a Protocol Buffers message of its schema, found"),
    ],
)
def test_what_is_wrong_is_told(
    flight: Callable[[bytes], object], proto: Callable[[bytes], object], kind: str, payload: bytes, expected: str
) -> None:
    """And it is one record that is wrong, not the schema."""
    with pytest.raises(RefusedError) as caught:
        (flight if kind == "avro" else proto)(payload)
    assert caught.value.reason is Reason.MALFORMED
    assert expected in str(caught.value)


def test_records_within_records_end_somewhere() -> None:
    """A schema may refer to itself, and a hostile record be as deep as it is long."""
    schema = '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}'
    with pytest.raises(RefusedError) as caught:
        avro_parser(schema, [])(b"\x02" * 500_000)
    assert caught.value.reason is Reason.TOO_DEEP
    own = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
    assert avro_parser(schema, [])(avro(own, {"r": {"r": None}})) == {"r": {"r": None}}
    nested = protobuf_parser('syntax = "proto3"; message R { R r = 1; }', {})
    body = b""
    for _ in range(200):
        length = len(body)
        size = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
        body = b"\x0a" + size + body
    with pytest.raises(RefusedError):
        nested(b"\0" + body)


def test_a_decimal_keeps_all_its_digits() -> None:
    """Identifiers of 38 digits, as databases have, are categories of their own."""
    parse = avro_parser('{"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}', [])
    for number in (12345678901234567890123456789012345678, -(2**511)):
        payload = number.to_bytes(64, "big", signed=True)
        found = parse(b"\x80\x01" + payload)
        assert str(found) == f"{str(number)[:-2]}.{str(number)[-2:]}"


def test_a_decimal_is_a_number_and_not_a_day_of_computing() -> None:
    """A million bytes of digits would take over a minute."""
    parse = avro_parser('{"type": "bytes", "logicalType": "decimal", "precision": 90, "scale": 3}', [])
    assert parse(b"\x02\xff") == Decimal("-0.001")
    assert parse(b"\x80\x01" + bytes([1] * 64)) == Decimal(f"{int.from_bytes(bytes([1] * 64), 'big')}e-3")
    with pytest.raises(RefusedError, match="bytes that do not fit it"):
        parse(b"\x82\x01" + bytes([1] * 65))
    endless = avro_parser('{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2000000000}', [])
    with pytest.raises(RefusedError, match="a decimal out of range"):
        endless(b"\x02\x01")


@pytest.mark.parametrize(
    ("parser", "arguments", "expected"),
    [
        (protobuf_parser, ("syntax = oops", {}), r"^protoc: schema_of_the_topic\.proto:1:10: "),
        (protobuf_parser, ('syntax = "proto3"; import "gone.proto";', {}), r"^protoc: gone\.proto: File not found"),
        (protobuf_parser, ('syntax = "proto3";', {"../../outside.proto": ""}), "which is not the name of a file"),
        (protobuf_parser, ('syntax = "proto3";', {"a": "", "a/b": ""}), r"the file '.*' can't be written"),
        (protobuf_parser, ('syntax = "proto3";', {"a\0b": ""}), r"the file '.*' can't be written"),
        (protobuf_parser, ('syntax = "proto3"; // \ud800', {}), r"the file '.*' can't be written"),
        (protobuf_parser, ('syntax = "proto3";', {"a" * 5000: ""}), "a file whose name is too long"),
        (
            protobuf_parser,
            ('syntax = "proto2"; message O { message M { option message_set_wire_format = true; } }', {}),
            "message_set_wire_format, which is not read",
        ),
        (
            avro_parser,
            ('{"type": "record", "name": "R", "fields": [{"name": "\\ud800", "type": "int"}]}', []),
            "surrogate",
        ),
        (avro_parser, ('{"type": "record", "name": "R", "fields": [{"name": "x", "type": "Gone"}]}', []), "Gone"),
        (avro_parser, ("{", []), "^it is not JSON: "),
        (avro_parser, ("[" * 100_000, []), "^its types are nested too deep"),
        (avro_parser, ('{"type": "array"}', []), "^it is not a schema of Avro: "),
        (avro_parser, ("7", []), "^it is not a schema of Avro: "),
        (avro_parser, ('{"type": "fixed", "name": "F", "size": -1}', []), "expected a size of at least 0"),
    ],
)
def test_a_schema_that_can_not_be_read_says_why(parser: Any, arguments: Any, expected: str) -> None:
    """In one error, whatever the library of the format raises."""
    with pytest.raises(SchemaError, match=expected):
        parser(*arguments)


KNOWN_TYPES = """
syntax = "proto3";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
import "google/type/decimal.proto";
import "google/type/latlng.proto";
import "google/type/timeofday.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message M {
  option (confluent.message_meta).doc = "a sale";
  confluent.type.Decimal fare = 1;
  google.type.Date day = 2;
  google.type.TimeOfDay hour = 3;
  google.type.Decimal tax = 4;
  google.type.LatLng place = 5;
  google.protobuf.Timestamp at = 6;
  google.protobuf.StringValue note = 7;
  bytes raw = 8;
}
"""
"""Its fields are those of the types that Confluent's Flink and ksqlDB write."""


@pytest.fixture(scope="module")
def known_types() -> Callable[[bytes], object]:
    """The parser of KNOWN_TYPES."""
    return protobuf_parser(KNOWN_TYPES, {})


def sized(tag: int, body: bytes) -> bytes:
    """A field of a message, with one byte of tag and one of size."""
    return bytes([tag << 3 | 2, len(body)]) + body


@pytest.mark.parametrize(
    "references",
    [{}, {"google/protobuf/timestamp.proto": 'syntax = "proto3"; message Other { string when = 1; }'}],
)
def test_the_types_of_google_and_confluent_need_no_reference(references: dict[str, str]) -> None:
    """Nor does it matter what the registry has under their names: that ended the worker."""
    parse = protobuf_parser(KNOWN_TYPES, references)
    body = sized(1, b"\x0a\x02\x26\xde\x10\x04\x18\x02") + sized(2, b"\x08\xea\x0f\x10\x01\x18\x05")
    body += sized(3, b"\x08\x07\x10\x1e") + sized(4, sized(1, b"-1.50")) + sized(5, b"") + sized(6, b"\x08\x01")
    body += sized(7, sized(1, b"x")) + sized(8, b"\xff")
    assert parse(b"\0" + body) == {
        "fare": Decimal("99.50"),
        "day": date(2026, 1, 5),
        "hour": time(7, 30),
        "tax": Decimal("-1.50"),
        "place": {"latitude": 0.0, "longitude": 0.0},
        "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "note": "x",
        "raw": b"\xff",
    }
    assert parse(b"\0" + sized(1, b"") + sized(4, b"")) == {"fare": Decimal(0), "tax": None, "raw": b""}


@pytest.mark.parametrize(
    ("body", "held"),
    [
        (sized(2, b"\x10\x01\x18\x05"), {"day": None}),
        (sized(3, b"\x08\x18"), {"hour": time(0, 0)}),
        (sized(3, b"\x18\x3c"), {"hour": time(0, 0, 59)}),
        (sized(1, sized(1, bytes([1] * 65))), "bytes that do not fit it"),
        (sized(1, b"\x0a\x01\x01\x18\xff\xff\xff\xff\x07"), "a decimal out of range"),
        (sized(2, b"\x08\x01\x10\x0d\x18\x01"), "bytes that do not fit it"),
        (sized(4, sized(1, b"sNaN")), "bytes that do not fit it"),
        (sized(6, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "a date, a time, or a decimal out of range"),
    ],
)
def test_what_those_types_may_hold(
    known_types: Callable[[bytes], object], body: bytes, held: dict[str, Any] | str
) -> None:
    """A day without its year is no date; what no type of Python's holds makes a dead letter."""
    parse = known_types
    if isinstance(held, str):
        with pytest.raises(RefusedError, match=f"found .*{held}"):
            parse(b"\0" + body)
    else:
        assert parse(b"\0" + body) == {"raw": b"", **held}


@pytest.mark.parametrize(
    ("schema", "written", "held"),
    [
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, UUID(int=7).bytes, UUID(int=7)),
        ({"type": "fixed", "name": "U", "size": 2, "logicalType": "uuid"}, b"\0\1", b"\0\1"),
        ({"type": "string", "logicalType": "uuid"}, b"\x48" + str(UUID(int=7)).encode(), UUID(int=7)),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\x02", datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)),
        ({"type": "long", "logicalType": "timestamp-micros"}, b"\x02", datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        ({"type": "long", "logicalType": "timestamp-nanos"}, b"\xee\x2e", datetime(1970, 1, 1, 0, 0, 0, 2, UTC)),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, b"\x02", datetime(1970, 1, 1, 0, 0, 0, 1000)),  # noqa: DTZ001
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, b"\x01", datetime(1969, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
        ({"type": "int", "logicalType": "date"}, b"\x02", date(1970, 1, 2)),
        ({"type": "int", "logicalType": "time-millis"}, b"\x02", time(0, 0, 0, 1000)),
        ({"type": "long", "logicalType": "time-micros"}, b"\x02", time(0, 0, 0, 1)),
        (
            {"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 2, "scale": 1},
            b"\x7f",
            Decimal("12.7"),
        ),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x02", "B"),
        ({"type": "array", "items": "null"}, b"\x04\0", [None, None]),
        (["null", "float"], b"\x02\0\0\0\x40", 2.0),
        ("bytes", b"\x02\xff", b"\xff"),
    ],
)
def test_the_types_of_avro(schema: Any, written: bytes, held: object) -> None:
    """Those of the table in the wire format."""
    found = avro_parser(json.dumps(schema), [])(written)
    assert found == held
    assert type(found) is type(held)
