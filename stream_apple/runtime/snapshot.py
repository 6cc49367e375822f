"""The form of a snapshot: a model's whole state as messages of the models topic, and back, to the bit.

A snapshot is a list of messages: blocks of the table, and a manifest at the end. Each is an envelope, a msgpack map:

    v      format of the whole snapshot, see `formats.py`
    model  fingerprint of the model
    at     the first offset of the examples that the state has not learned
    index  0, 1, ...; the manifest is the last
    of     number of messages
    data   a zstd frame with a checksum: a block's columns, or the manifest as a msgpack map

A block holds BLOCK_SLOTS slots, column by column (they compress to half of what rows would), and the tags and
visitors of their buckets. The manifest holds the rest of the state by name, and a digest over all of it.

Encoding is done in one go, so that learning can go on while the messages are sent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import msgpack
import numpy as np
import zstandard

from stream_apple.core.table import BUCKET, Table
from stream_apple.errors import SnapshotError
from stream_apple.runtime.formats import VERSION, Columns, Manifest, columns_of, upgrade_columns, upgrade_manifest
from stream_apple.runtime.lineage import Pointer
from stream_apple.runtime.step import PartitionModel

BLOCK_SLOTS = 1 << 14
"""Half a megabyte before compression: below Kafka's default limit for a message, whatever the slots hold."""
_LEVEL = -1  # of zstd: 1.8 GB/s, and within a tenth of the best ratio
_MOST_BYTES = 64 << 20  # of one message when decompressed: a damaged size must not exhaust memory


class Snapshot(NamedTuple):
    """A model's state at offset `at`, ready to be sent."""

    at: int
    digest: str
    messages: list[bytes]


def message_key(group: str, partition: int, index: int | None = None) -> bytes:
    """The key of message `index` of a partition's snapshots, or what all of them begin with.

    Always the same, so that compaction keeps one snapshot: a new one displaces the last when it is committed, whole.
    """
    return f"{group}/{partition}/{'' if index is None else index}".encode()


def encode(model: PartitionModel) -> Snapshot:
    """The state of `model` now; ModelError if a weight is not finite, which must never be kept."""
    model.learner.check_finite()
    blocks = _blocks(model.learner.table)
    digest = model.digest()
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    manifest = msgpack.packb(_manifest(model, digest))

    def seal(index: int, data: bytes) -> bytes:
        return bytes(
            msgpack.packb(
                {
                    "v": VERSION,
                    "model": model.lineage.model,
                    "at": model.next_offset,
                    "index": index,
                    "of": len(blocks) + 1,
                    "data": compressor.compress(data),
                }
            )
        )

    messages = [seal(index, b"".join(_columns(model.learner.table, *block))) for index, block in enumerate(blocks)]
    return Snapshot(model.next_offset, digest, [*messages, seal(len(blocks), manifest)])


def _manifest(model: PartitionModel, digest: str) -> Manifest:
    return {
        "topic": model.topic,
        "partition": model.partition,
        "start": model.lineage.start,
        "gaps": model.lineage.gaps,
        "options": asdict(model.learner.options),
        "digest": digest,
        "ended_epoch": model.ended_epoch,
        "epoch_digest": model.epoch_digest,
        "constant": {name: model.learner.table.slots[name][-1:].tobytes() for name, _ in columns_of(VERSION)},
        "arrays": {name: [array.dtype.str, array.tobytes()] for name, array in model.sums.items()},
    }


def _blocks(table: Table) -> list[tuple[int, int]]:
    """First slot and end of each block; the constant, in the last slot, belongs to none."""
    size = len(table.slots) - 1
    return [(start, min(start + BLOCK_SLOTS, size)) for start in range(0, size, BLOCK_SLOTS)]


def _columns(table: Table, start: int, stop: int) -> Iterator[bytes]:
    slots = table.slots[start:stop]
    for name, _ in columns_of(VERSION):
        yield slots[name].tobytes()
    yield table.tags[start // BUCKET : stop // BUCKET].tobytes()
    yield table.visitor[start // BUCKET : stop // BUCKET].tobytes()


class Decoder:
    """Writes a snapshot into a new model, message by message.

    model    of the snapshot's settings and lineage, which has learned nothing; of use only if all messages are in
    pointer  what the committed offset says of the snapshot
    """

    def __init__(self, model: PartitionModel, pointer: Pointer) -> None:
        self._model = model
        self._pointer = pointer
        self._blocks = _blocks(model.learner.table)
        self._next = 0
        self._decompressor = zstandard.ZstdDecompressor()

    @property
    def left(self) -> int:
        """Messages still to come."""
        return len(self._blocks) + 1 - self._next

    def add(self, value: bytes | None) -> None:
        """Take in the next message; SnapshotError if it is not the one that must come now."""
        version, data = self._open(value)
        try:
            if self._next < len(self._blocks):
                self._write_block(version, data, *self._blocks[self._next])
            else:
                self._finish(upgrade_manifest(version, msgpack.unpackb(data, strict_map_key=False)))
        except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
            raise SnapshotError(f"message {self._next}: expected the state of this model, found: {error}") from error
        self._next += 1

    def _open(self, value: bytes | None) -> tuple[int, bytes]:
        """Format and content of a message, when it has been found to be the one that must come next."""
        try:
            envelope: Mapping[str, Any] = msgpack.unpackb(value)
            version = envelope["v"]
            if not isinstance(version, int) or not 0 < version <= VERSION:
                raise SnapshotError(
                    f"message {self._next}: expected format {VERSION} or older, found {version}: "
                    f"a newer version of stream_apple wrote it"
                )
            place = {name: envelope[name] for name in ("model", "at", "index", "of")}
            expected = {
                "model": self._model.lineage.model,
                "at": self._pointer.at,
                "index": self._next,
                "of": len(self._blocks) + 1,
            }
            if place != expected:
                raise SnapshotError(f"message {self._next}: expected {expected}, found {place}")
            return version, self._decompressor.decompress(envelope["data"], max_output_size=_MOST_BYTES)
        except (ValueError, TypeError, KeyError, msgpack.UnpackException, zstandard.ZstdError) as error:
            raise SnapshotError(f"message {self._next}: expected an undamaged message, found: {error!r}") from error

    def _write_block(self, version: int, data: bytes, start: int, stop: int) -> None:
        size, at = stop - start, 0
        columns: Columns = {}
        layout = [(name, np.dtype(form), size) for name, form in columns_of(version)]
        layout += [("tags", np.dtype("<u8"), size // BUCKET), ("visitor", np.dtype("u1"), size // BUCKET)]
        if len(data) != (needed := sum(form.itemsize * count for _, form, count in layout)):
            raise ValueError(f"{len(data)} bytes in a block of {needed}")
        for name, form, count in layout:
            columns[name] = np.frombuffer(data, form, count, at)
            at += form.itemsize * count
        columns = upgrade_columns(version, columns)
        table = self._model.learner.table
        table.tags[start // BUCKET : stop // BUCKET] = columns.pop("tags")
        table.visitor[start // BUCKET : stop // BUCKET] = columns.pop("visitor")
        slots = table.slots[start:stop]
        for name, column in columns.items():
            slots[name] = column

    def _finish(self, manifest: Manifest) -> None:
        model = self._model
        for name, expected in (
            ("topic", model.topic),
            ("partition", model.partition),
            ("start", model.lineage.start),
            ("options", asdict(model.learner.options)),
            ("digest", self._pointer.digest),
        ):
            if manifest[name] != expected:
                raise SnapshotError(f"the manifest: expected {name} {expected}, found {manifest[name]}")
        for name, form in columns_of(VERSION):
            model.learner.table.slots[name][-1:] = np.frombuffer(manifest["constant"][name], form)
        sums = {name: np.frombuffer(data, form) for name, (form, data) in manifest["arrays"].items()}
        model.restore(self._pointer.at, manifest["ended_epoch"], manifest["epoch_digest"], sums)
        if (found := model.digest()) != self._pointer.digest:
            raise SnapshotError(f"expected a state with digest {self._pointer.digest}, found {found}")
