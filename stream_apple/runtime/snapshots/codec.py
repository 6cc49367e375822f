"""The form of a snapshot: a model's whole state as messages of the models topic, and back, to the bit.

A snapshot is a list of messages: blocks of the table, and a manifest at the end. Each is an envelope, a msgpack map:

    v      format of the whole snapshot, see `versions.py`
    model  fingerprint of the model
    at     the first offset of the examples that the state has not learned
    index  0, 1, ...; the manifest is the last
    of     number of messages
    data   a zstd frame with a checksum: a block's columns, or the manifest as a msgpack map

A block holds BLOCK_SLOTS slots, column by column (they compress to half of what rows would), the tags and the
admission filter of their buckets, the companions of the base features among them, column by column, and what the
slots that are taken have besides, row by row. The manifest holds the rest of the state by name, what was observed
besides, and a digest over all that the model depends on.

Messages are made when they are to be sent, of a copy of the state if learning goes on meanwhile.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgpack
import numpy as np
import zstandard
from numpy.typing import NDArray

from stream_apple.core.learner.state.table import BUCKET, COMPANION, Table, base_features, check_finite, sides_of
from stream_apple.core.learner.state_digest import StateDigest
from stream_apple.errors import SnapshotError
from stream_apple.runtime.lineage import SnapshotPointer
from stream_apple.runtime.model_image import Ended, ModelImage
from stream_apple.runtime.partition_model import PartitionModel
from stream_apple.runtime.snapshots.versions import (
    VERSION,
    BlockColumns,
    Manifest,
    columns_of,
    upgrade_columns,
    upgrade_manifest,
)

BLOCK_SLOTS = 1 << 14
"""Half a megabyte before compression: below Kafka's default limit for a message, whatever the slots hold."""
_LEVEL = -1  # of zstd: 1.8 GB/s, and within a tenth of the best ratio
_MOST_BYTES = 64 << 20  # of one message when decompressed: a damaged size must not exhaust memory


class Snapshot(NamedTuple):
    """A model's state at offset `at`, ready to be sent."""

    at: int
    digest: str
    messages: list[bytes]


def encode_snapshot(model: PartitionModel) -> Snapshot:
    """The state of `model` now; ModelError if a weight is not finite, which must never be kept."""
    encoder = SnapshotEncoder(model, model.image())
    messages = list(encoder)
    return Snapshot(encoder.at, encoder.digest, messages)


class SnapshotEncoder:
    """Makes the messages of a snapshot, one after another; so that none has to wait in memory until it is sent.

    model  whose state it is or was
    image  of its state, that nobody changes before the last message is made

    at      the first offset that the state has not learned
    count   how many messages there are
    digest  of the state; "" before the last message is made
    """

    def __init__(self, model: PartitionModel, image: ModelImage) -> None:
        self.at = image.at
        self.digest = ""
        self._model = model
        self._image = image
        self._blocks = _blocks(image.table)
        self.count = len(self._blocks) + 1
        self._learner_digest = StateDigest()
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)

    def __iter__(self) -> Iterator[bytes]:
        """All messages, in order; ModelError if a weight is not finite, which must never be kept."""
        table = self._image.table
        for index, (start, stop) in enumerate(self._blocks):
            self._check(start, stop)
            yield self._seal(index, b"".join(_columns(table, start, stop)))
        self._check(len(table.slots) - 1, len(table.slots))
        self.digest = self._image.digest(self._learner_digest.finish(table, self._image.learned))
        yield self._seal(len(self._blocks), msgpack.packb(self._manifest()))

    def _constant_sides(self) -> dict[str, NDArray[Any]]:
        size = len(self._image.table.slots)
        return sides_of(self._image.table, size - 1, size)

    def _check(self, start: int, stop: int) -> None:
        check_finite(self._image.table, start, stop)
        self._learner_digest.add_slots(self._image.table, start, stop)

    def _seal(self, index: int, data: bytes) -> bytes:
        return bytes(
            msgpack.packb(
                {
                    "v": VERSION,
                    "model": self._image.lineage.model,
                    "at": self.at,
                    "index": index,
                    "of": self.count,
                    "data": self._compressor.compress(data),
                }
            )
        )

    def _manifest(self) -> Manifest:
        model, image = self._model, self._image
        return {
            "topic": model.topic,
            "partition": model.partition,
            "start": image.lineage.start,
            "gaps": image.lineage.gaps,
            "options": model.learner.options.identity(),
            "digest": self.digest,
            "ended_epoch": image.ended.epoch,
            "epoch_digest": image.ended.digest,
            "constant": {name: image.table.slots[name][-1:].tobytes() for name, _ in columns_of(VERSION)},
            "companion": image.table.companions[-1:].tobytes(),
            "sides": {name: side.tobytes() for name, side in self._constant_sides().items()},
            "arrays": _packed(image.sums),
            "observed": _packed(image.observed),
        }


def _blocks(table: Table) -> list[tuple[int, int]]:
    """First slot and end of each block; the constant, in the last slot, belongs to none."""
    size = len(table.slots) - 1
    return [(start, min(start + BLOCK_SLOTS, size)) for start in range(0, size, BLOCK_SLOTS)]


def _packed(arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, list[str | bytes]]:
    return {name: [array.dtype.str, array.tobytes()] for name, array in arrays.items()}


def _unpacked(arrays: Mapping[str, list[Any]]) -> dict[str, NDArray[Any]]:
    return {name: np.frombuffer(data, form) for name, (form, data) in arrays.items()}


def _columns(table: Table, start: int, stop: int) -> Iterator[bytes]:
    slots = table.slots[start:stop]
    for name, _ in columns_of(VERSION):
        yield slots[name].tobytes()
    yield table.tags[start // BUCKET : stop // BUCKET].tobytes()
    yield table.admission_filter[_of_filter(table, start, stop)].tobytes()
    if len(table.companions):
        companions = table.companions[start:stop][base_features(slots)]
        for name in COMPANION.names or ():
            yield companions[name].tobytes()
    for side in sides_of(table, start, stop).values():
        yield side[slots["key"] != 0].tobytes()


def _of_filter(table: Table, start: int, stop: int) -> slice:
    """Where the admission filter has the buckets of these slots."""
    each = len(table.admission_filter) // len(table.tags)
    return slice(each * start // BUCKET, each * stop // BUCKET)


class SnapshotDecoder:
    """Writes a snapshot into a new model, message by message.

    model    of the snapshot's settings and lineage, which has learned nothing; of use only if all messages are in
    pointer  what the committed offset says of the snapshot
    """

    def __init__(self, model: PartitionModel, pointer: SnapshotPointer) -> None:
        self._model = model
        self._pointer = pointer
        self._blocks = _blocks(model.learner.table)
        self._next = 0
        self._learner_digest = StateDigest()
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
        table, size, at = self._model.learner.table, stop - start, 0
        of_filter = _of_filter(table, start, stop)
        columns: BlockColumns = {}
        layout = [(name, np.dtype(form), size) for name, form in columns_of(version)]
        layout += [("tags", np.dtype("<u8"), size // BUCKET)]
        layout += [("admission_filter", np.dtype("u1"), of_filter.stop - of_filter.start)]
        if len(data) < (needed := sum(form.itemsize * count for _, form, count in layout)):
            raise ValueError(f"{len(data)} bytes in a block of at least {needed}")
        for name, form, count in layout:
            columns[name] = np.frombuffer(data, form, count, at)
            at += form.itemsize * count
        columns = upgrade_columns(version, columns)
        table.tags[start // BUCKET : stop // BUCKET] = columns.pop("tags")
        table.admission_filter[of_filter] = columns.pop("admission_filter")
        slots = table.slots[start:stop]
        for name, column in columns.items():
            slots[name] = column
        at = self._write_companions(data, at, start, stop)
        self._write_sides(data, at, start, stop)
        self._learner_digest.add_slots(table, start, stop)

    def _write_companions(self, data: bytes, at: int, start: int, stop: int) -> int:
        """Take in those from byte `at` on; where they end."""
        table = self._model.learner.table
        used = base_features(table.slots[start:stop])[: len(table.companions)]
        if len(data) - at < (needed := len(used) * COMPANION.itemsize):
            raise ValueError(f"{len(data) - at} bytes of companions, not {needed}")
        companions = np.zeros(len(used), COMPANION)
        columns = np.frombuffer(data, "<f4", needed // 4, at).reshape(len(COMPANION.names or ()), len(used))
        for name, column in zip(COMPANION.names or (), columns, strict=True):
            companions[name] = column
        if len(used):
            table.companions[start:stop][used] = companions
        return at + needed

    def _write_sides(self, data: bytes, at: int, start: int, stop: int) -> None:
        """Take in the rest of a block, from byte `at` on: what slots that are taken have besides."""
        table = self._model.learner.table
        taken = table.slots["key"][start:stop] != 0
        for side in sides_of(table, start, stop).values():
            at = _take_rows(side, taken, data, at)
        if at != len(data):
            raise ValueError(f"{len(data)} bytes in a block of {at}")

    def _finish(self, manifest: Manifest) -> None:
        model = self._model
        for name, expected in (
            ("topic", model.topic),
            ("partition", model.partition),
            ("start", model.lineage.start),
            ("options", model.learner.options.identity()),
            ("digest", self._pointer.digest),
        ):
            if manifest[name] != expected:
                raise SnapshotError(f"the manifest: expected {name} {expected}, found {manifest[name]}")
        for name, form in columns_of(VERSION):
            model.learner.table.slots[name][-1:] = np.frombuffer(manifest["constant"][name], form)
        table = model.learner.table
        table.companions[-1:] = np.frombuffer(manifest["companion"], COMPANION)
        for name, side in sides_of(table, len(table.slots) - 1, len(table.slots)).items():
            _take_rows(side, np.ones(1, np.bool_), manifest["sides"][name], 0)
        ended = Ended(manifest["ended_epoch"], manifest["epoch_digest"])
        model.restore(self._pointer.at, ended, _unpacked(manifest["arrays"]))
        model.restore_observed(_unpacked(manifest["observed"]))
        image = model.image()
        self._learner_digest.add_slots(table, len(table.slots) - 1, len(table.slots))
        if (found := image.digest(self._learner_digest.finish(image.table, image.learned))) != self._pointer.digest:
            raise SnapshotError(f"expected a state with digest {self._pointer.digest}, found {found}")


def _take_rows(side: NDArray[Any], taken: NDArray[np.bool_], data: bytes, at: int) -> int:
    """Write into the rows that are taken what stands from byte `at` on; where that ends."""
    rows = side[taken]
    side[taken] = np.frombuffer(data, side.dtype, rows.size, at).reshape(rows.shape)
    return at + rows.nbytes
