"""What somebody makes of bytes who knows the formats: parts of other types, and damage behind every checksum."""

import math
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import msgpack
import numpy as np
import xxhash
import zstandard

from stream_apple.stream.positions.lineage import FILE_MAGIC


def nested(depth: int) -> list[Any]:
    """Lists within each other."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


STRANGE: list[Any] = [
    *(None, True, False, 0, 1, -1, 7, 10**6, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
    *(0.0, 1.5, -1e300, math.nan, math.inf, "", "x", "/dev/zero", "0" * 16, "0" * 32, "<f8", "O", "x" * 10_000),
    *(b"", b"x", b"\xff" * 100, [], {}, [[]], [1, 2], [1, "<f8"], ["<f8", b""], {"a": 1}, {1: 2}, [0] * 1000),
    *(nested(6), nested(500), {"a": nested(3)}, msgpack.Timestamp(5), msgpack.ExtType(5, b"x")),
]
"""Of every type, and of sizes that nothing has."""


def packed_anyway(value: Any) -> bytes:
    """As msgpack, whatever stands in it."""
    return bytes(msgpack.packb(value, default=str))


def distorted(random: Random, value: Any, *, chance: float = 0.35) -> Any:
    """The same, but that something in it is of another type, missing, double, or far off."""
    if isinstance(value, dict) and value and random.random() > chance:
        key = random.choice(list(value))
        return {**value, key: distorted(random, value[key], chance=chance)}
    if isinstance(value, list) and value and random.random() > chance:
        at = random.randrange(len(value))
        return [*value[:at], distorted(random, value[at], chance=chance), *value[at + 1 :]]
    if isinstance(value, bytes) and random.random() < 0.7:
        return flipped(random, value)
    way = random.randrange(4)
    if isinstance(value, dict) and value and way < 3:
        key = random.choice(list(value))
        rest = {name: part for name, part in value.items() if name != key}
        return (
            rest
            if way == 0
            else {**value, random.choice(["x", "v", 5]): random.choice(STRANGE)}
            if way == 1
            else {
                **rest,
                random.choice(["y", -1, 2**64 - 1]): value[key],
            }
        )
    if isinstance(value, list) and value and way < 2:
        return value[:-1] if way == 0 else value * 2
    if isinstance(value, int) and way == 0:
        return value + random.choice([-1, 1, 2, 1000, -1000])
    return random.choice(STRANGE)


def flipped(random: Random, data: bytes) -> bytes:
    """With some bits that are others, an end that is missing, or something behind it."""
    if not data:
        return b"\x01"
    found, way = bytearray(data), random.randrange(6)
    if way == 0:
        return bytes(found[: random.randrange(len(found))])
    if way == 1:
        return bytes(found) + random.choice([b"\0", b"\xff" * 8, bytes(found[:64])])
    for _ in range(random.choice([1, 1, 2, 8, 64])):
        found[random.randrange(len(found))] = random.randrange(256)
    return bytes(found)


def resealed(message: bytes, **changes: Any) -> bytes:
    """The message with some fields of its envelope changed."""
    return packed_anyway({**msgpack.unpackb(message), **changes})


def rewritten(message: bytes, change: Callable[[Any], Any]) -> bytes:
    """With another manifest in it."""
    manifest = msgpack.unpackb(zstandard.decompress(msgpack.unpackb(message)["data"]), strict_map_key=False)
    return resealed(message, data=zstandard.compress(packed_anyway(change(manifest))))


_EXTREMES = [np.array(value).tobytes() for value in (-1, 2**62, -(2**63), 255, np.nan, np.inf, -np.inf, 1e308)]


def disarranged(random: Random, arrays: dict[str, Any]) -> dict[str, Any]:
    """Named arrays of sound types, some with other numbers, or of another length."""
    found = dict(arrays)
    for _ in range(random.choice([1, 1, 3])):
        name = random.choice(list(found))
        form, data = found[name]
        size = np.dtype(form).itemsize
        way = random.randrange(5)
        if way == 0:
            data = data[: random.randrange(len(data) // size + 1) * size]
        elif way == 1:
            data += random.randbytes(size * random.choice([1, 2, 100]))
        elif data:
            at = random.randrange(len(data) // size) * size
            data = data[:at] + random.choice([*_EXTREMES, random.randbytes(8)])[-size:] + data[at + size :]
        found[name] = [form, data]
    return found


def forged_message(random: Random, message: bytes) -> bytes:
    """A message that is not what it was: as a whole, in its envelope, or in what is compressed in it."""
    envelope = msgpack.unpackb(message)
    way = random.randrange(7)
    if way == 0:
        return flipped(random, message)
    if way == 1:
        return packed_anyway(distorted(random, envelope))
    content = zstandard.decompress(envelope["data"])
    if envelope["index"] < envelope["of"] - 1 or way == 2:
        return resealed(message, data=zstandard.compress(flipped(random, content)))
    manifest = msgpack.unpackb(content, strict_map_key=False)
    if way > 4:
        name = random.choice(["arrays", "arrays", "arrays", "observed"])
        manifest[name] = disarranged(random, manifest.get(name) or manifest["arrays"])
        return resealed(message, data=zstandard.compress(packed_anyway(manifest)))
    return resealed(message, data=zstandard.compress(packed_anyway(distorted(random, manifest, chance=0.2))))


def content_of(file: bytes) -> dict[str, Any]:
    """What stands behind the digest of a model file."""
    content: dict[str, Any] = msgpack.unpackb(file.partition(b"\n")[2][16:], strict_map_key=False)
    return content


def file_of(content: Any, version: bytes = b"1") -> bytes:
    """A model file whose digest is right; `content`: bytes, or what is to be msgpack."""
    body = content if isinstance(content, bytes) else packed_anyway(content)
    line = FILE_MAGIC + version
    return line + b"\n" + xxhash.xxh3_128_digest(line + body) + body


def forged_file(random: Random, file: bytes) -> bytes:
    """A model file that is not what it was, with a digest that is right."""
    content = content_of(file)
    way = random.randrange(8)
    if way == 0:
        return file_of(flipped(random, packed_anyway(content)))
    if way == 1:
        return file_of(content, random.choice([b"", b"0", b"2", b"-1", b"9" * 5000, b"1x", b"\xff", b" 1"]))
    if way < 5:
        return file_of(distorted(random, content))
    messages = content["messages"]
    at = random.choice([random.randrange(len(messages)), -1])
    messages[at] = forged_message(random, messages[at])
    return file_of(content)


def bomb(declared: int, held: int | None = None) -> bytes:
    """A frame of zeros, which takes next to nothing, that says that it has `declared` bytes.

    held  how many it has; None: the frame ends when it has said how many
    """
    if held is None:
        return b"\x28\xb5\x2f\xfd" + bytes([0b11100000]) + struct.pack("<Q", declared) + b"\x01\x00\x00"
    maker = zstandard.ZstdCompressor().compressobj(size=declared)
    portion = bytes(1 << 20)
    parts = [maker.compress(portion[: min(len(portion), held - at)]) for at in range(0, held, len(portion))]
    return b"".join([*parts, maker.flush()])


def amplified(count: int) -> bytes:
    """So many maps with nothing in them: a byte each here, and a hundred as objects."""
    return b"\xdd" + struct.pack(">I", count) + b"\x80" * count
