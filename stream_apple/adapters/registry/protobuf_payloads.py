"""Payloads of Protocol Buffers, by Google's library: the text of a schema is compiled when it is first met.

A field that its writer can leave unset is absent if it is. One that it can't (proto3 without `optional`) has the value
that the reader of any language would get: 0, false or an empty text.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc_tools
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from stream_apple.adapters.registry.schema_registry import Parse
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

_ITSELF = "schema_of_the_topic.proto"
_STANDARD = Path(grpc_tools.__file__).parent / "_proto"
_EXPECTED = "a Protocol Buffers message of its schema"
_MOST_INDEXES = 16
_COMPILING_S = 60.0
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes", "List", "")
) | {"google.protobuf.Struct"}
"""The messages that stand for their one field; the last three hold what JSON holds."""
_SECONDS = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})


def protobuf_parser(schema: str, references: Mapping[str, str]) -> Parse:
    """Return the parser of the payloads of `schema`, the text of a .proto file; ValueError if that is none.

    references  the files that it imports, by the names under which it does
    """
    files = _compiled({**references, _ITSELF: schema})
    pool = DescriptorPool()
    for file in files:
        pool.Add(file)
    top = pool.FindFileByName(_ITSELF)
    messages = list(top.message_types_by_name.values())
    order = [message.name for message in files[-1].message_type]
    messages.sort(key=lambda message: order.index(message.name))

    def parse(payload: bytes) -> object:
        indexes, at = _indexes(payload)
        message = GetMessageClass(_message_type(messages, indexes))()
        try:
            type(message).ParseFromString(message, payload[at:])
        except DecodeError as error:
            raise RefusedError(Reason.MALFORMED, _EXPECTED, str(error)) from None
        return _fields(message)

    return parse


def _compiled(files: Mapping[str, str]) -> list[FileDescriptorProto]:
    """Return the descriptors of all files and of what they import, the last one of `files` last."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = (Path(folder) / name).resolve()
            if not path.is_relative_to(Path(folder).resolve()):
                raise ValueError(f"expected the name of an imported file, found {name!r}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = Path(folder) / "descriptors"
        arguments = [f"-I{folder}", f"-I{_STANDARD}", f"--descriptor_set_out={found}", "--include_imports", _ITSELF]
        # In a process of its own: what it has against a schema is written to its standard error.
        command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMPILING_S)  # noqa: S603  ours
        if done.returncode != 0:
            told = done.stderr.replace(f"{folder}/", "").strip()
            raise ValueError(f"expected a schema that protoc compiles, found: {told}")
        return list(FileDescriptorSet.FromString(found.read_bytes()).file)


def _indexes(payload: bytes) -> tuple[list[int], int]:
    """Return which message of the schema the payload is, by number within each level, and where the message begins."""
    count, at = _varint(payload, 0)
    if not 0 <= count <= _MOST_INDEXES:
        raise RefusedError(Reason.MALFORMED, f"at most {_MOST_INDEXES} numbers of a message", count)
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return indexes or [0], at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag-coded integer at `at`, and where it ends."""
    bits = shift = 0
    while at < len(payload) and shift < 35:
        byte = payload[at]
        bits |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), at
    raise RefusedError(Reason.MALFORMED, "the number of a message of its schema", "no such number")


def _message_type(messages: list[Descriptor], indexes: list[int]) -> Descriptor:
    found, level = None, messages
    for index in indexes:
        if not 0 <= index < len(level):
            raise RefusedError(Reason.MALFORMED, f"one of {len(level)} messages of its schema", f"number {index}")
        found = level[index]
        level = list(found.nested_types)
    assert found is not None
    return found


def _fields(message: Message) -> dict[str, object]:
    # Its class is asked: a field may be called like an attribute of the message, and hides that.
    kind = type(message)
    return {
        field.name: _held(message, field)
        for field in kind.DESCRIPTOR.fields
        if not field.has_presence or kind.HasField(message, field.name)
    }


def _held(message: Message, field: FieldDescriptor) -> object:
    value = getattr(message, field.name)
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        item = kind.fields_by_name["value"]
        return {_key(key): _value(item, each) for key, each in value.items()}
    return [_value(field, each) for each in value] if field.is_repeated else _value(field, value)


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _value(field: FieldDescriptor, value: Any) -> object:  # noqa: ANN401  of any type that a field has
    if field.enum_type is not None:
        if field.enum_type.full_name == "google.protobuf.NullValue":
            return None
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if field.message_type is None:
        return value
    if field.message_type.full_name in _SECONDS:
        return value.seconds + value.nanos / 1e9
    found = _fields(value)
    return next(iter(found.values()), None) if field.message_type.full_name in _WRAPPERS else found
