"""What somebody else may have written, or damaged: read within bounds, and checked whole before anything is made of it.

Two ways in, for all that is read back:

    read_file, read_line, digest   of a path that a setting, an option or a file names: of a regular file, and bounded
    from_msgpack, from_json        bytes that are to be of a kind: first their shape is bounded, then they become
                                   objects, then every part is held against the types that the kind declares

A kind is a `Stored`, which is a map, or any other type that pydantic knows, NamedTuples for lists; nothing is
converted, but a list into a tuple.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, BinaryIO, TypeGuard, TypeVar

import msgpack
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

_Kind = TypeVar("_Kind")

Offset = Annotated[int, Field(ge=0, lt=1 << 63)]
OffsetOrNone = Annotated[int, Field(ge=-1, lt=1 << 63)]  # -1: none
PartitionNumber = Annotated[int, Field(ge=0, lt=1 << 31)]
RoundNumber = Annotated[int, Field(ge=0, lt=1 << 63)]
Epoch = Annotated[int, Field(ge=-1, lt=1 << 63)]
StateHash = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
FileHash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ModelHash = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
FeatureKey = Annotated[int, Field(ge=0, lt=1 << 64)]
ArrayType = Annotated[str, Field(pattern=r"^[<|][biuf][1248]$")]

DEEPEST = 8
"""Maps and lists within each other; the deepest that is written has 5."""
MOST_ITEMS = 1 << 19
"""Maps, lists, and what is in them. A model file has two for each of 65,536 names, and one for each block."""
SMALL_FILE = 1 << 20
"""Bytes of a configuration, or of a value that stands in a file of its own."""

_CHUNK = 1 << 20
_LONGEST_SHOWN = 200
_KINDS_OF_FILES = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_IN_WORDS = {"model_type": "be a map", "dict_type": "be a map", "tuple_type": "be a list"} | {
    "named_tuple_type": "be a list"
}
"""Of what pydantic calls by the names of Python's types."""

_short = Repr()
_short.maxdict = _short.maxlist = _short.maxtuple = 40
_short.maxlevel, _short.maxstring, _short.maxother = 3, 60, 60


class Stored(BaseModel):
    """A map with these entries, and perhaps others of which nobody knows."""

    model_config = ConfigDict(frozen=True, strict=True)


class Closed(Stored):
    """A map with these entries, and no others."""

    model_config = ConfigDict(extra="forbid")


class Versioned(Stored):
    """A map of any format, which its number says."""

    v: int


class MalformedError(ValueError):
    """Bytes are not of the kind that is expected; the message says which part, what it has to be, and what it is."""


class UnreadableFileError(Exception):
    """A path is no regular file, or can't be read, or is too long; the message says what was expected, and found."""


def read_file(path: Path, most: int = SMALL_FILE) -> bytes:
    """The content of a regular file, or of the pipe of a shell's `<(...)`, of `most` bytes; UnreadableFileError."""
    with _opened(path, most) as file:
        content = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
        # One that grows, or says of no length, such as those of /proc, is no way around.
        while len(content) <= most and (further := file.read(_CHUNK)):
            content += further
    if len(content) > most:
        raise UnreadableFileError(_too_long(path, most, "more"))
    return content


def digest_of(path: Path, start: bytes) -> str | None:
    """64 hex digits, the SHA-256 of a regular file of any length; None if it does not begin with `start`.

    It is never in memory as a whole. UnreadableFileError.
    """
    with _opened(path) as file:
        first = file.read(max(len(start), 1))
        if not first.startswith(start):
            return None
        digest = hashlib.sha256(first)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _opened(path: Path, most: int | None = None) -> Iterator[BinaryIO]:
    """A regular file, open; OSErrors of reading become UnreadableFileErrors, too."""
    try:
        # Without a writer, to open a pipe would wait for one.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if most is not None and stat.S_ISFIFO(found.st_mode) and _is_inherited(path):
                os.set_blocking(file.fileno(), True)
            elif not stat.S_ISREG(found.st_mode):
                kind = next((name for is_kind, name in _KINDS_OF_FILES if is_kind(found.st_mode)), "something else")
                raise UnreadableFileError(f"expected a readable file {path}: it is {kind}")
            if most is not None and found.st_size > most:
                raise UnreadableFileError(_too_long(path, most, f"{found.st_size:,}"))
            yield file
    except OSError as error:
        raise UnreadableFileError(f"expected a readable file {path}: {error.strerror or error}") from error
    except ValueError as error:  # a zero byte in the path
        raise UnreadableFileError(f"expected a readable file {str(path)!r}: {error}") from error


def _is_inherited(path: Path) -> bool:
    """Whether the path is that of a file that was open when this process began, so that somebody writes to its pipe."""
    return path == Path("/dev/stdin") or path.parent in {Path("/dev/fd"), Path("/proc/self/fd")}


def _too_long(path: Path, most: int, found: str) -> str:
    return f"expected a file of at most {most:,} bytes, found {found}: {path}"


def from_msgpack(kind: type[_Kind], data: bytes | memoryview | None) -> _Kind:
    """What the bytes hold, lists being tuples; MalformedError."""
    return of_kind(kind, unpacked_msgpack(data))


def unpacked_msgpack(data: bytes | memoryview | None) -> object:
    """What the bytes hold, within bounds, of whatever kind it is; MalformedError."""
    if data is None:
        raise MalformedError("expected a value, found none")
    try:
        _check_shape(data)
        return msgpack.unpackb(data, use_list=False, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException, OverflowError) as error:
        raise MalformedError(f"expected msgpack, found {because(error)}") from error


def _check_shape(data: bytes | memoryview) -> None:
    """MalformedError for what would take far more memory as objects than as bytes, or is nested deeply."""
    unpacker = msgpack.Unpacker(max_buffer_size=max(len(data), 1))
    unpacker.feed(data)
    left, items = [1], 0
    while left:
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        items += 1
        at = unpacker.tell()
        tag = data[at] if at < len(data) else 0xC1
        if 0x80 <= tag <= 0x8F or tag in {0xDE, 0xDF}:
            left.append(2 * unpacker.read_map_header())
        elif 0x90 <= tag <= 0x9F or tag in {0xDC, 0xDD}:
            left.append(unpacker.read_array_header())
        else:
            unpacker.skip()
        if len(left) > DEEPEST + 1:
            raise MalformedError(f"maps and lists within each other deeper than {DEEPEST}")
        if items > MOST_ITEMS:
            raise MalformedError(f"more than {MOST_ITEMS:,} values")
    if unpacker.tell() < len(data):
        raise MalformedError(f"{len(data) - unpacker.tell():,} bytes behind its end")


def from_json(kind: type[_Kind], text: str | bytes) -> _Kind:
    """What the text holds, lists being tuples; MalformedError."""
    try:
        found: _Kind = _adapter(kind).validate_json(text, strict=True)  # type: ignore[arg-type]  # a class can be hashed
    except ValidationError as error:
        raise MalformedError(_told(error)) from None
    return found


def of_kind(kind: type[_Kind], found: object) -> _Kind:
    """The same, held against a kind; MalformedError."""
    try:
        checked: _Kind = _adapter(kind).validate_python(found, strict=True)  # type: ignore[arg-type]  # as above
    except ValidationError as error:
        raise MalformedError(_told(error)) from None
    return checked


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401  any class
    return TypeAdapter(kind)


def _told(error: ValidationError) -> str:
    """The first thing that is wrong: which part, what it has to be, and what it is."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = _cut(".".join(str(part) for part in first["loc"])) or "the whole"
    if first["type"] == "missing":
        return f"expected {where}, found nothing of this name"
    if first["type"] == "extra_forbidden":
        return f"expected nothing of the name {where}, found {in_short(first['input'])}"
    if first["type"] == "json_invalid":
        return f"expected JSON, found {in_short(first['input']) or 'nothing'}"
    expected = _IN_WORDS.get(first["type"]) or first["msg"].removeprefix("Input should ")
    return f"expected {where} to {expected}, found {in_short(first['input'])}"


def real_number(value: object) -> float:
    """A number as a float; TypeError for another type, a bool too, and OverflowError for too large an integer."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a value of type {type(value).__name__}")
    return float(value)


def is_offset(value: object) -> TypeGuard[int]:
    """Whether this is a number that an offset, or a partition, may have."""
    return type(value) is int and value >= 0


def in_short(value: object) -> str:
    """Something of it, in few characters, for a message: texts as they are."""
    return _cut(value) if isinstance(value, str) else _cut(_short.repr(value))


def because(error: Exception) -> str:
    """What an error says of bytes, in few characters; its name where it says nothing, as some of msgpack's do."""
    return _cut(str(error) or type(error).__name__)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
