"""A model as one file: a snapshot's messages, the model's lineage and settings, and the names of its features.

The first line is FILE_MAGIC and the format; 16 bytes of digest (xxh3_128 of the line and the map) follow, and a msgpack
map.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgpack
import xxhash

from stream_apple.config.schema import Identifier, TopicName
from stream_apple.errors import FormatError, SnapshotError
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import FILE_MAGIC, Gap, Lineage, SnapshotPointer
from stream_apple.stream.snapshots.codec import SnapshotDecoder, encode_snapshot
from stream_apple.untrusted import (
    Closed,
    FeatureKey,
    FileHash,
    MalformedError,
    ModelHash,
    Offset,
    PartitionNumber,
    StateHash,
    Stored,
    from_msgpack,
)

FORMAT = 1
_DIGEST_BYTES = 16
_LINE = re.compile(rb"([0-9]{1,9})\n")


class MergedFrom(NamedTuple):
    """One of the models that a merged model was made of, in one of its states.

    model   the model's fingerprint
    at      the first offset that it had not learned
    digest  of the state, 32 hex digits
    """

    group: Identifier
    topic: TopicName
    partition: PartitionNumber
    model: ModelHash
    at: Offset
    digest: StateHash


class StartingFile(Closed):
    """Identifies the file that a model started from; the file itself is not needed any more."""

    sha256: FileHash


class SavedSettings(Closed):
    """Sections of the configuration that the model depends on, in JSON types; and the file that it started from.

    registry  whether the configuration had a schema registry

    No other section is read: a file that somebody else made must not decide anything about this machine, such as which
    files are opened.
    """

    learner: dict[str, Any]
    epochs: dict[str, Any]
    limits: dict[str, Any]
    input: dict[str, Any]
    output: dict[str, Any]
    registry: bool
    from_model: StartingFile | None = None

    def sections(self) -> dict[str, dict[str, Any]]:
        """Return only the sections of the configuration, without `registry` and `from_model`."""
        return self.model_dump(exclude={"registry", "from_model"})


class SavedModel(Stored):
    """The map that a model file has behind its digest.

    start, model, gaps, skips  the model's lineage
    pointer      where the snapshot was in the models topic; first and last are -1 for a merged model, which was in none
    messages     the snapshot's, in their order
    names        key of a base feature -> its name
    merged_from  the models that were merged into it, in order; () if it was not merged
    """

    group: Identifier
    topic: TopicName
    partition: PartitionNumber
    settings: SavedSettings
    start: Offset
    model: ModelHash
    gaps: tuple[Gap, ...]
    skips: tuple[Offset, ...]
    pointer: SnapshotPointer
    messages: tuple[bytes, ...]
    names: dict[FeatureKey, str]
    merged_from: tuple[MergedFrom, ...]

    @property
    def lineage(self) -> Lineage:
        """Return the model's lineage."""
        return Lineage(self.start, self.model, self.gaps, self.skips)

    def restore(self, model: PartitionModel) -> None:
        """Write the state into a new model of these settings; SnapshotError if the result has another digest."""
        decoder = SnapshotDecoder(model, self.pointer)
        for message in self.messages:
            decoder.add(message)
        if decoder.left:
            raise SnapshotError(f"expected {decoder.left} more messages of the snapshot, found {len(self.messages)}")


def model_file_of(
    model: PartitionModel,
    group: str,
    settings: Mapping[str, Any],
    pointer: SnapshotPointer,
    names: Names,
    merged_from: Sequence[MergedFrom] = (),
) -> bytes:
    """Return the file's content; SnapshotError unless the model is in the state that `pointer` names.

    settings  as `SavedSettings` has them
    pointer   of the snapshot that the model was restored from, with its digest
    """
    snapshot = encode_snapshot(model)
    if (snapshot.at, snapshot.digest) != (pointer.at, pointer.digest):
        raise SnapshotError(f"expected the state of {pointer}, found {snapshot.digest} at {snapshot.at}")
    content: bytes = msgpack.packb(
        {
            "group": group,
            "topic": model.topic,
            "partition": model.partition,
            "settings": settings,
            "start": model.lineage.start,
            "model": model.lineage.model,
            "gaps": model.lineage.gaps,
            "skips": model.lineage.skips,
            "pointer": pointer,
            "messages": snapshot.messages,
            "names": names.known(),
            "merged_from": list(merged_from),
        }
    )
    line = b"%s%d" % (FILE_MAGIC, FORMAT)
    return line + b"\n" + xxhash.xxh3_128_digest(line + content) + content


def read_model_file(content: bytes, place: str) -> SavedModel:
    """Return what the file at `place` holds, given its content; SnapshotError if it is no model file, or damaged."""
    line = _LINE.match(content, len(FILE_MAGIC)) if content.startswith(FILE_MAGIC) else None
    if line is None:
        raise SnapshotError(f"{place}: expected a file that `inspect --save` has written, or `merge`, found another")
    if (version := int(line[1])) != FORMAT:
        raise FormatError(
            f"{place}: expected a model file of format {FORMAT}, found {version}; to start over, save a model of this "
            f"version with `inspect --save`, or leave worker.from_model empty to learn the records again"
        )
    at = line.end() + _DIGEST_BYTES
    expected, body = content[line.end() : at], memoryview(content)[at:]
    digest = xxhash.xxh3_128(content[: line.end() - 1])
    digest.update(body)
    if digest.digest() != expected:
        raise SnapshotError(
            f"{place}: expected content with digest {expected.hex()}, found {digest.hexdigest()}: the file is damaged, "
            f"or its end is missing"
        )
    try:
        return from_msgpack(SavedModel, body)
    except MalformedError as error:
        raise SnapshotError(f"{place}: expected the parts of a saved model, found: {error}") from error
