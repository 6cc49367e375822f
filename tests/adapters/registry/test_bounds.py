"""No payload takes more time or memory than its limits allow, whatever its writer and its schema are up to."""

import io
import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_one
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_apple.adapters.registry.avro_bounds import AvroBounds, _Payload
from stream_apple.adapters.registry.avro_payloads import avro_parser
from stream_apple.adapters.registry.payloads import MOST_PARTS, SchemaError
from stream_apple.adapters.registry.protobuf_bounds import ProtobufBounds, _Message
from stream_apple.adapters.registry.protobuf_compiler import compiled
from stream_apple.adapters.registry.protobuf_payloads import protobuf_parser
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

MEGABYTE = 1_000_000
MOST_SECONDS, MOST_BYTES = 0.1, 50 * MEGABYTE
EMPTY = {"type": "record", "name": "Empty", "fields": []}
NULLS = {"type": "record", "name": "N", "fields": [{"name": f"n{each}", "type": "null"} for each in range(1000)]}
FLAG = {"type": "record", "name": "F", "fields": [{"name": "flag", "type": "boolean"}]}
TREE = {"type": "record", "name": "T", "fields": [{"name": "t", "type": {"type": "array", "items": "T"}}]}
CHAIN = {"type": "record", "name": "C", "fields": [{"name": "c", "type": ["null", "C"]}]}


def doubling(levels: int) -> dict[str, Any]:
    """A record of no byte that holds 2^levels others."""
    found: dict[str, Any] = EMPTY
    for level in range(levels):
        inner = [{"name": "a", "type": found}, {"name": "b", "type": found["name"]}]
        found = {"type": "record", "name": f"L{level}", "fields": inner}
    return found


def array_of(items: object) -> dict[str, Any]:
    """A list in Avro."""
    return {"type": "array", "items": items}


def varint(number: int) -> bytes:
    """An unsigned integer."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def count(number: int) -> bytes:
    """The number of items of a block in Avro."""
    return varint(2 * number)


def entries(number: int) -> bytes:
    """Entries of a map in Avro whose keys have three bytes, and whose values have none."""
    return b"".join(b"\x06" + bytes([97 + at % 26, 97 + at // 26 % 26, 97 + at // 676 % 26]) for at in range(number))


AVRO: dict[str, tuple[Any, bytes]] = {
    "nulls": (array_of("null"), count(2**40) + b"\0"),
    "nulls in many blocks": (array_of("null"), count(1000) * 400_000 + b"\0"),
    "empty records": (array_of(EMPTY), count(2**62)),
    "records of nulls": (array_of(NULLS), count(2**31) + b"\0"),
    "records of a byte": (array_of(FLAG), count(MEGABYTE - 10) + bytes(MEGABYTE - 10) + b"\0"),
    "empty lists": (array_of(array_of("long")), count(MEGABYTE - 10) + bytes(MEGABYTE - 10) + b"\0"),
    "a tree": (TREE, b"\x04" * (MEGABYTE // 2)),
    "a wide tree": (array_of(TREE), count(MEGABYTE - 10) + bytes(MEGABYTE - 10) + b"\0"),
    "a chain": (CHAIN, b"\x02" * MEGABYTE),
    "records that double": (doubling(40), b""),
    "booleans": (array_of("boolean"), count(MEGABYTE - 10) + bytes(MEGABYTE - 10) + b"\0"),
    "integers": (array_of("long"), count(MEGABYTE // 3) + b"\xff\xff\x01" * (MEGABYTE // 3) + b"\0"),
    "an endless integer": ("long", b"\xff" * MEGABYTE),
    "dates": (array_of({"type": "int", "logicalType": "date"}), count(MEGABYTE - 10) + bytes(MEGABYTE - 10) + b"\0"),
    "texts": (array_of("string"), count(MEGABYTE // 3) + b"\x04ab" * (MEGABYTE // 3) + b"\0"),
    "symbols": (
        array_of({"type": "enum", "name": "E", "symbols": ["A"]}),
        count(MEGABYTE - 10) + bytes(MEGABYTE - 10) + b"\0",
    ),
    "branches": (array_of(["null", "int", FLAG]), count(MEGABYTE - 10) + bytes(MEGABYTE - 10) + b"\0"),
    "a map": ({"type": "map", "values": "null"}, count(MEGABYTE // 4) + entries(MEGABYTE // 4) + b"\0"),
    "maps": (array_of({"type": "map", "values": "int"}), count(MEGABYTE - 10) + bytes(MEGABYTE - 10) + b"\0"),
    "fixed of no byte": (array_of({"type": "fixed", "name": "Z", "size": 0}), count(2**50) + b"\0"),
    "a huge fixed": ({"type": "fixed", "name": "Z", "size": 2**40}, bytes(100)),
    "a huge text": ("string", count(2**60) + bytes(100)),
    "a negative text": ("string", b"\x03" + bytes(100)),
    "a huge block": (array_of("double"), count(2**62) + bytes(MEGABYTE - 20)),
    "unions of many branches": (
        array_of([{"type": "record", "name": f"U{number}", "fields": []} for number in range(5000)]),
        count(MEGABYTE // 2) + b"\x02" * (MEGABYTE // 2) + b"\0",
    ),
    "unions, as many as may be": (
        array_of([{"type": "record", "name": f"U{number}", "fields": []} for number in range(5000)]),
        count(110) + b"\x02" * 110 + b"\0",
    ),
    "decimals, as many as may be": (
        array_of({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}),
        count(MOST_PARTS // 5 - 10) + b"\x02\x01" * (MOST_PARTS // 5 - 10) + b"\0",
    ),
    "large decimals": (
        array_of({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}),
        count(13_000) + (b"\x80\x01" + b"\x7f" * 64) * 13_000 + b"\0",
    ),
    "identifiers": (
        array_of({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}),
        count(13_000) + bytes(13_000 * 16) + b"\0",
    ),
    "times, as many as may be": (
        array_of({"type": "long", "logicalType": "timestamp-nanos"}),
        count(MOST_PARTS // 5 - 10) + bytes(MOST_PARTS // 5 - 10) + b"\0",
    ),
    "as large as it may be": (array_of("long"), count(MOST_PARTS - 10) + b"\x80\x01" * (MOST_PARTS - 10) + b"\0"),
    "records, as many as may be": (
        array_of(FLAG),
        count(MOST_PARTS // 3 - 10) + bytes(MOST_PARTS // 3 - 10) + b"\0",
    ),
}
"""What a hostile producer may write: a schema in Avro, and a payload of at most a megabyte."""


def wide(kind: str) -> str:
    """A schema of a list of messages with a thousand fields each."""
    fields = "".join(f"{kind} int32 f{number} = {number};" for number in range(1, 1001))
    return f"message M {{ repeated W w = 1; }} message W {{ {fields} }}"


PROTOBUF: dict[str, tuple[str, bytes]] = {
    "empty messages": ("message M { repeated E e = 1; } message E {}", b"\x0a\0" * 450_000),
    "empty messages of many fields": (wide(""), b"\x0a\0" * 450_000),
    "empty messages of many unset fields": (wide("optional"), b"\x0a\0" * 450_000),
    "empty groups": ("message M { repeated group E = 1 {} }", b"\x0b\x0c" * 450_000),
    "messages that an extension holds": (
        "message M { extensions 5 to 9; } message W { optional W w = 1; } extend M { repeated W w = 5; }",
        b"\x2a\0" * 450_000,
    ),
    "entries of a map": ("message M { map<int32, E> e = 1; } message E {}", b"\x0a\0" * 450_000),
    "booleans": ("message M { repeated bool b = 1; }", b"\x0a" + varint(MEGABYTE - 10) + bytes(MEGABYTE - 10)),
    "booleans one by one": ("message M { repeated bool b = 1; }", b"\x08\0" * 500_000),
    "texts": ("message M { repeated string s = 1; }", b"\x0a\0" * 500_000),
    "one field again and again": ("message M { int32 n = 1; }", b"\x08\1" * 500_000),
    "unknown fields": ("message M {}", b"\x08\1" * 500_000),
    "unknown groups": ("message M {}", b"\x0b" * 500_000 + b"\x0c" * 500_000),
    "a chain": ("message M { M m = 1; }", b"\x0a" + varint(0xFFFFF) * 2),
    "an endless integer": ("message M { int64 n = 1; }", b"\x08" + b"\xff" * MEGABYTE),
    "a huge size": ("message M { string s = 1; }", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(70_000)),
    "as large as it may be": ("message M { repeated int64 n = 1; }", b"\x08\1" * (MOST_PARTS // 2)),
    "messages, as many as may be": (
        "message M { repeated E e = 1; } message E { int32 n = 1; }",
        b"\x0a\0" * (MOST_PARTS // 3 - 10),
    ),
}
"""The same in Protocol Buffers."""
PROTO2 = frozenset({"empty groups", "messages that an extension holds", "empty messages of many unset fields"})


@cache
def parser_of(kind: str, name: str) -> Callable[[bytes], object]:
    """The parser of one of these schemas."""
    if kind == "avro":
        return avro_parser(json.dumps(AVRO[name][0]), [])
    edition = 'syntax = "proto2"; ' if name in PROTO2 else 'syntax = "proto3"; '
    return protobuf_parser(edition + PROTOBUF[name][0], {})


def payload_of(kind: str, name: str) -> bytes:
    """The payload; in front of a message, that it is the first of its schema."""
    return AVRO[name][1] if kind == "avro" else b"\0" + PROTOBUF[name][1]


def kilobytes(name: str) -> int:
    """Memory of this process, as Linux says it."""
    return int(Path("/proc/self/status").read_text().partition(f"{name}:")[2].split()[0])


MAP_KEY = b"\x0a\x05\x0a\x01\xff\x10\x01"


def utf8_parser(edition: str) -> Callable[[bytes], object]:
    """The parser of a map by texts, and of a text."""
    text = "string" if edition == "proto3" else "optional string"
    return protobuf_parser(f'syntax = "{edition}"; message M {{ map<string, int32> m = 1; {text} s = 2; }}', {})


CASES = [("avro", name) for name in AVRO] + [("protobuf", name) for name in PROTOBUF]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_record_takes_a_tenth_of_a_second_at_most(kind: str, name: str) -> None:
    """Of the processor, in the fastest of five tries: such records took a minute."""
    parse, payload = parser_of(kind, name), payload_of(kind, name)
    spent = []
    for _ in range(5):
        begun = time.thread_time()
        with suppress(RefusedError):
            parse(payload)
        spent.append(time.thread_time() - begun)
    assert min(spent) < MOST_SECONDS


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_record_takes_fifty_megabytes_at_most(kind: str, name: str) -> None:
    """Such records took gigabytes."""
    parse, payload = parser_of(kind, name), payload_of(kind, name)
    Path("/proc/self/clear_refs").write_text("5")  # the peak of this process is that of now
    before = kilobytes("VmRSS")
    with suppress(RefusedError):
        parse(payload)
    assert 1024 * (kilobytes("VmHWM") - before) < MOST_BYTES


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("avro", "nulls", Reason.TOO_MANY_FEATURES),
        ("avro", "records that double", Reason.TOO_MANY_FEATURES),
        ("avro", "records of a byte", Reason.TOO_MANY_FEATURES),
        ("avro", "a map", Reason.TOO_MANY_FEATURES),
        ("avro", "a chain", Reason.TOO_DEEP),
        ("avro", "a tree", Reason.TOO_DEEP),
        ("avro", "an endless integer", Reason.MALFORMED),
        ("avro", "a huge text", Reason.MALFORMED),
        ("avro", "a negative text", Reason.MALFORMED),
        ("avro", "a huge fixed", Reason.MALFORMED),
        ("protobuf", "empty messages", Reason.TOO_MANY_FEATURES),
        ("protobuf", "empty groups", Reason.TOO_MANY_FEATURES),
        ("protobuf", "messages that an extension holds", Reason.TOO_MANY_FEATURES),
        ("protobuf", "booleans", Reason.TOO_MANY_FEATURES),
        ("protobuf", "unknown groups", Reason.TOO_DEEP),
        ("protobuf", "a huge size", Reason.MALFORMED),
    ],
)
def test_what_the_dead_letter_says(kind: str, name: str, reason: Reason) -> None:
    """The reason is the same as for a record of JSON or msgpack that is as large."""
    with pytest.raises(RefusedError) as caught:
        parser_of(kind, name)(payload_of(kind, name))
    assert caught.value.reason is reason
    text = str(caught.value)
    if reason is Reason.TOO_MANY_FEATURES:
        assert text.endswith("with at most 70,000 values, found more")
    if reason is Reason.TOO_DEEP:
        assert text.endswith("nested at most 64 deep, found more")


def test_as_many_values_as_may_be_are_read() -> None:
    """The bound is exact: a record, its list, and each item are parts; in Avro so is the record around the schema."""
    for kind, around, parse in (
        ("avro", 3, avro_parser(json.dumps(array_of("int")), [])),
        ("protobuf", 3, protobuf_parser('syntax = "proto3"; message M { repeated int32 n = 1; }', {})),
    ):
        for items in (MOST_PARTS - around, MOST_PARTS - around + 1):
            body = b"\x02" * items
            payload = count(items) + body + b"\0" if kind == "avro" else b"\0\x0a" + varint(items) + body
            if items + around > MOST_PARTS:
                with pytest.raises(RefusedError, match="at most 70,000 values"):
                    parse(payload)
            else:
                assert parse(payload)


@pytest.mark.parametrize(
    ("edition", "body"),
    [("proto2", MAP_KEY), ("proto3", MAP_KEY), ("proto3", b"\x12\x01\xff")],
)
def test_keys_and_texts_that_are_not_utf8_are_dead_letters(edition: str, body: bytes) -> None:
    """The key of a map ended the worker, again and again."""
    with pytest.raises(RefusedError) as caught:
        utf8_parser(edition)(b"\0" + body)
    assert caught.value.reason is Reason.MALFORMED
    assert "expected a Protocol Buffers message of its schema, found " in str(caught.value)


def test_a_text_of_proto2_that_is_not_utf8_is_bytes() -> None:
    """Which are a fault only if the mapping reads them."""
    assert utf8_parser("proto2")(b"\0\x12\x01\xff") == {"m": {}, "s": b"\xff"}


NAMES = st.integers(0, 10**9).map(lambda number: f"T{number}")
LOGICAL: list[dict[str, Any]] = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 10**9},
]
LEAVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string", *LOGICAL])
NAMED = st.builds(
    lambda name, size: {"type": "fixed", "name": name, "size": size, "logicalType": "uuid"}, NAMES, st.integers(0, 20)
) | st.builds(lambda name: {"type": "enum", "name": name, "symbols": ["A", "B"]}, NAMES)


def _record(name: str, types: list[Any], itself: bool) -> dict[str, Any]:  # noqa: FBT001  hypothesis gives it
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    if itself:
        fields.append({"name": "again", "type": ["null", name]})
    return {"type": "record", "name": name, "fields": fields}


SCHEMAS = st.recursive(
    LEAVES | NAMED,
    lambda inner: (
        inner.map(array_of)
        | inner.map(lambda values: {"type": "map", "values": values})
        | st.builds(_record, NAMES, st.lists(inner, max_size=4), st.booleans())
        | st.lists(LEAVES.filter(lambda each: isinstance(each, str)), unique=True, max_size=4)
    ),
    max_leaves=8,
)
"""Of Avro; those that say one name twice are refused."""
PAYLOADS = st.binary(max_size=200) | st.builds(
    lambda head, item, times: head + item * times, st.binary(max_size=12), st.binary(max_size=4), st.integers(0, 50_000)
)


def check(parse: Callable[[bytes], object], payload: bytes) -> None:
    """A payload is read or refused, twice in the same way, in time."""
    told: list[tuple[Reason, str]] = []
    begun = time.thread_time()
    for _ in range(2):
        try:
            parse(payload)
        except RefusedError as error:
            told.append((error.reason, str(error)))
    assert all(str(text).startswith("expected ") and "Error" not in str(text) for _, text in told)
    assert len(set(told)) <= 1
    assert len(told) != 1
    assert time.thread_time() - begun < 4 * MOST_SECONDS


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(SCHEMAS, st.lists(PAYLOADS, min_size=1, max_size=5))
def test_any_bytes_by_any_schema_of_avro(schema: Any, payloads: list[bytes]) -> None:
    """A schema is read, or SchemaError says why not."""
    try:
        parse = avro_parser(json.dumps(schema), [])
    except SchemaError:
        return
    for payload in payloads:
        check(parse, payload)


PROTO = """
syntax = "proto2";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
message M {
  optional int64 n = 1;
  repeated M m = 2;
  map<string, M> by_name = 3;
  repeated double d = 4 [packed = true];
  repeated sint32 z = 5 [packed = true];
  optional group G = 6 { optional M g = 1; }
  optional google.protobuf.Struct any = 7;
  optional google.protobuf.Timestamp at = 8;
  optional confluent.type.Decimal fare = 9;
  optional google.type.Date day = 10;
  repeated google.protobuf.StringValue word = 11;
  optional bytes raw = 12;
  repeated string text = 13;
  enum E { A = 0; B = 1; }
  repeated E e = 14;
}
"""


@pytest.fixture(scope="module")
def everything() -> Callable[[bytes], object]:
    """The parser of a schema that has all kinds of fields."""
    return protobuf_parser(PROTO, {})


def _field(number: int, wire: int, body: bytes) -> bytes:
    size = varint(len(body)) if wire == 2 else b""
    end = bytes([number << 3 | 4]) if wire == 3 else b""
    return bytes([number << 3 | wire]) + size + body + end


MESSAGES = st.recursive(
    st.binary(max_size=6),
    lambda inner: st.lists(
        st.builds(_field, st.integers(1, 15), st.sampled_from([0, 1, 2, 2, 2, 3, 5]), inner), max_size=4
    ).map(b"".join),
    max_leaves=30,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(MESSAGES, st.integers(1, 30_000))
def test_any_bytes_by_a_schema_of_protocol_buffers(
    everything: Callable[[bytes], object], message: bytes, times: int
) -> None:
    """Also where they are almost a message, and repeated."""
    repeat: Mapping[bool, int] = {True: times, False: 1}
    check(everything, b"\0" + message * repeat[len(message) * times < MEGABYTE])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(SCHEMAS, st.lists(st.binary(max_size=20), max_size=3))
def test_what_is_counted_is_what_fastavro_reads(schema: Any, payloads: list[bytes]) -> None:
    """To the last byte, and no more than what is expected of so many bytes."""
    named: dict[str, Any] = {}
    field = {"name": "x", "type": schema}
    try:
        parsed = fastavro.parse_schema({"type": "record", "name": "R", "fields": [field]}, named_schemas=named)
        payloads.append(written(parsed))
    except (ValueError, fastavro.schema.SchemaParseException):
        return  # it says one name twice
    bounds = AvroBounds(parsed, named)
    size = bounds._size(parsed, ())
    for payload in payloads:
        stream = io.BytesIO(payload)
        try:
            fastavro.schemaless_reader(stream, parsed, None)
        except Exception:  # noqa: BLE001  it is not of this schema
            continue
        counted = _Payload(payload)
        bounds._skip(counted)
        assert counted.at == stream.tell()
        if math.isfinite(size.per_byte):
            assert MOST_PARTS - counted.left <= size.parts + size.per_byte * counted.at


def written(parsed: Any) -> bytes:
    """Any payload of a schema; ValueError if the writer can't."""
    stream = io.BytesIO()
    try:
        fastavro.schemaless_writer(stream, parsed, generate_one(parsed))
    except (TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return stream.getvalue()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(message=MESSAGES)
def test_what_is_counted_is_what_the_library_reads(message: bytes) -> None:
    """The same in Protocol Buffers."""
    pool, bounds = counted_types()
    descriptor = pool.FindMessageTypeByName("M")
    try:
        GetMessageClass(descriptor).FromString(message)
    except DecodeError:
        return
    counted, kind = _Message(message, 0), bounds._types["M"]
    counted.scan(kind, len(message), 1)
    assert counted._at == len(message)
    assert MOST_PARTS - counted._left <= kind.parts + bounds._most_per_byte(kind) * len(message)


@cache
def counted_types() -> tuple[DescriptorPool, ProtobufBounds]:
    """Those of the schema that has all kinds of fields."""
    pool = DescriptorPool()
    for file in compiled(PROTO, {}):
        pool.Add(file)
    return pool, ProtobufBounds([pool.FindMessageTypeByName("M")], pool)
