"""The form of a snapshot: a model's whole state as messages of the models topic, and back, to the bit.

A snapshot is a list of messages: blocks of the learner's rows, and a manifest at the end. Each is an envelope, a
msgpack map:

    v      format, see `blocks.FORMAT`
    model  fingerprint of the model
    at     the first offset of the examples that the state has not learned
    index  0, 1, ...; the manifest is the last
    of     number of messages
    data   a zstd frame with a checksum: a block's columns, or the manifest as a msgpack map

`blocks.py` says what is in a block. The manifest holds the rest of the state by name, measurements on which nothing
depends, and a digest over all state.

Messages are made when they are to be sent; if learning goes on meanwhile, from a copy of the state.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgpack

from stream_apple.errors import SnapshotError, SnapshotMissingError
from stream_apple.learners.state import block_bounds, bytes_of_rows
from stream_apple.learners.state_digest import RowsDigest
from stream_apple.stream.model.model_image import Ended, ModelImage
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import SnapshotPointer
from stream_apple.stream.snapshots.blocks import (
    DAMAGES,
    FORMAT,
    MOST_OF_A_MANIFEST,
    PackedArray,
    StoredSums,
    check_format,
    compressor,
    decode_block,
    decompressed,
    encode_block,
    packed,
    unpacked,
)
from stream_apple.stream.snapshots.compressed_model import CompressedModel
from stream_apple.untrusted import (
    Epoch,
    MalformedError,
    StateHash,
    Stored,
    Versioned,
    because,
    from_msgpack,
    in_short,
    of_kind,
    unpacked_msgpack,
)

_Manifest = dict[str, Any]


class _SnapshotEnvelope(Stored):
    """Checks the envelope of a message whose format is known."""

    model: str
    at: int
    index: int
    of: int
    data: bytes


class StoredManifest(StoredSums):
    """Checks a manifest. Fields of type Any are compared with expected values, which checks them."""

    topic: Any
    partition: Any
    start: Any
    gaps: Any
    skips: Any
    options: Any
    digest: Any
    ended_epoch: Epoch
    epoch_digest: StateHash | Literal[""]
    observed: dict[str, PackedArray]


class Snapshot(NamedTuple):
    """Holds a model's state at offset `at`, ready to be sent; `passed` as in `ModelImage`."""

    at: int
    digest: str
    messages: list[bytes]
    passed: bool = False

    @property
    def message_count(self) -> int:
        """Return how many messages there are."""
        return len(self.messages)


def encode_snapshot(model: PartitionModel) -> Snapshot:
    """Return a snapshot of the present state of `model`; ModelError if a weight is not finite: that is never kept."""
    encoder = SnapshotEncoder(model, model.image())
    messages = list(encoder.messages)
    return Snapshot(encoder.at, encoder.digest, messages, encoder.passed)


class SnapshotEncoder:
    """Makes the messages of a snapshot one after another, so that none has to wait in memory until it is sent.

    model  the model that `image` was taken of
    image  of the model's state; nothing may change it before the last message is made

    at, passed  of the image
    digest      of the state; "" before the last message is made
    """

    def __init__(self, model: PartitionModel, image: ModelImage) -> None:
        self.at, self.passed = image.at, image.passed
        self.digest = ""
        self._model = model
        self._image = image
        self._blocks = block_bounds(image.learned.rows)
        self.message_count = len(self._blocks) + 1
        self._learner_digest = RowsDigest()
        self._compressor = compressor()

    @property
    def messages(self) -> Iterator[bytes]:
        """Yield all messages, in order; ModelError if a weight is not finite: that is never kept."""
        rows, sums = self._image.learned
        for index, (start, stop) in enumerate(self._blocks):
            self._learner_digest.add(rows, start, stop)
            yield self._seal(index, encode_block(rows, start, stop))
        self.digest = self._image.digest(self._learner_digest.finish(sums))
        manifest = _manifest(self._model, self._image, self.digest)
        yield self._seal(len(self._blocks), msgpack.packb(manifest))

    def _seal(self, index: int, content: bytes) -> bytes:
        data = self._compressor.compress(content)
        return _sealed(self._image.lineage.model, self.at, index, self.message_count, data)


def _sealed(lineage: str, at: int, index: int, of: int, data: bytes) -> bytes:
    return bytes(msgpack.packb({"v": FORMAT, "model": lineage, "at": at, "index": index, "of": of, "data": data}))


def _manifest(model: PartitionModel, image: ModelImage, digest: str) -> _Manifest:
    return {
        "topic": model.topic,
        "partition": model.partition,
        "start": image.lineage.start,
        "gaps": image.lineage.gaps,
        "skips": image.lineage.skips,
        "options": model.learner.options.identity(),
        "digest": digest,
        "ended_epoch": image.ended.epoch,
        "epoch_digest": image.ended.digest,
        "arrays": packed(image.sums),
        "observed": packed(image.observed),
    }


class SnapshotDecoder:
    """Writes a snapshot into a new model, message by message.

    model    of the snapshot's settings and lineage, which has learned nothing; it can be used when nothing is `left`
    pointer  what the committed offset says of the snapshot
    kept     takes the blocks, compressed, in place of the model, whose own rows stay empty
    """

    def __init__(self, model: PartitionModel, pointer: SnapshotPointer, kept: CompressedModel | None = None) -> None:
        self._model = model
        self._pointer = pointer
        self._kept = kept
        self._rows = model.learner.state.rows
        self._blocks = block_bounds(self._rows)
        self._next = 0
        self._learner_digest = RowsDigest()

    @property
    def left(self) -> int:
        """Return how many messages are still to come."""
        return len(self._blocks) + 1 - self._next

    def add(self, value: bytes | None) -> None:
        """Take in the next message; SnapshotError if it is not the one that must come now."""
        frame, data = self._open(value)
        try:
            if self._next < len(self._blocks):
                self._take_block(frame, data)
            else:
                self._finish(_manifest_of(data))
        except DAMAGES as error:
            raise SnapshotError(
                f"message {self._next}: expected the state of this model, found: {because(error)}"
            ) from error
        self._next += 1

    def _take_block(self, frame: bytes, data: bytes) -> None:
        start, stop = self._blocks[self._next]
        if self._kept is None:
            decode_block(data, self._rows, start, stop)
            self._learner_digest.add(self._rows, start, stop)
        else:
            self._learner_digest.add(self._kept.add(frame, data), 0, stop - start)

    def _open(self, value: bytes | None) -> tuple[bytes, bytes]:
        """Return the next message's frame and its content; SnapshotError unless the message must come now."""
        try:
            content = unpacked_msgpack(value)
            check_format(of_kind(Versioned, content).v)
            envelope = of_kind(_SnapshotEnvelope, content)
            place = {name: getattr(envelope, name) for name in ("model", "at", "index", "of")}
            expected = {
                "model": self._model.lineage.model,
                "at": self._pointer.at,
                "index": self._next,
                "of": len(self._blocks) + 1,
            }
            if place != expected:
                # If others of the snapshot are in its place, the rest of a torn transaction may be all that is left.
                kind = SnapshotMissingError if place | {"index": self._next} == expected else SnapshotError
                raise kind(f"message {self._next}: expected {expected}, found {in_short(place)}")
            if self._next == len(self._blocks):
                most = MOST_OF_A_MANIFEST
            else:
                most = bytes_of_rows(self._rows, *self._blocks[self._next])
            return envelope.data, decompressed(envelope.data, most)
        except DAMAGES as error:
            raise SnapshotError(
                f"message {self._next}: expected an undamaged message, found: {because(error)}"
            ) from error

    def _finish(self, manifest: StoredManifest) -> None:
        model = self._model
        for name, expected in (
            ("topic", model.topic),
            ("partition", model.partition),
            ("start", model.lineage.start),
            ("options", model.learner.options.identity()),
            ("digest", self._pointer.digest),
        ):
            if (found := getattr(manifest, name)) != expected:
                raise SnapshotError(f"the manifest: expected {name} {expected}, found {in_short(found)}")
        ended = Ended(manifest.ended_epoch, manifest.epoch_digest)
        model.restore(self._pointer.at, ended, unpacked(manifest.arrays))
        model.restore_observed(unpacked(manifest.observed))
        image = model.image()
        if (found := image.digest(self._learner_digest.finish(image.learned.sums))) != self._pointer.digest:
            raise SnapshotError(f"expected a state with digest {self._pointer.digest}, found {found}")


def read_place(value: bytes | None) -> tuple[str, int, int, int]:
    """Return a message's model, offset, index and number of messages, by its envelope; ("", 0, 0, 0) without one."""
    try:
        envelope = of_kind(_SnapshotEnvelope, unpacked_msgpack(value))
    except DAMAGES:
        return "", 0, 0, 0
    return envelope.model, envelope.at, envelope.index, envelope.of


def read_stored_manifest(value: bytes | None) -> StoredManifest:
    """Return the manifest in the last message of a snapshot of any model; SnapshotError if there is none in it."""
    try:
        content = unpacked_msgpack(value)
        check_format(of_kind(Versioned, content).v)
        envelope = of_kind(_SnapshotEnvelope, content)
        if envelope.index != envelope.of - 1:
            raise SnapshotError(
                f"expected the last message of a snapshot, found message {envelope.index} of {envelope.of}"
            )
        return _manifest_of(decompressed(envelope.data, MOST_OF_A_MANIFEST))
    except DAMAGES as error:
        raise SnapshotError(f"expected the manifest of a snapshot, found: {because(error)}") from error


def _manifest_of(data: bytes) -> StoredManifest:
    """Return a manifest; SnapshotError if a field is missing or of another type."""
    try:
        return from_msgpack(StoredManifest, data)
    except MalformedError as error:
        raise SnapshotError(f"the manifest: {error}") from error
