"""A model as one file: a snapshot's messages, what they descend from, and the names of its features.

The first line tells what it is; a digest over all the rest comes next, then a msgpack map.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgpack
import xxhash

from stream_apple.core.codec.feature_names import Names
from stream_apple.errors import SnapshotError
from stream_apple.runtime.lineage import FILE_MAGIC, Gap, Lineage, SnapshotPointer
from stream_apple.runtime.partition_model import PartitionModel
from stream_apple.runtime.snapshots.codec import SnapshotDecoder, encode_snapshot

FORMAT = 1
_DIGEST_BYTES = 16


class MergedFrom(NamedTuple):
    """One of the models that a merged one was made of: whose, and which state of it.

    model   its fingerprint
    at      the first offset that it had not learned
    digest  of its state, 32 hex digits
    """

    group: str
    topic: str
    partition: int
    model: str
    at: int
    digest: str


class SavedModel(NamedTuple):
    """What a model file holds.

    settings     sections of the configuration that the model depends on, in JSON types; and `from_model` of its
                 provenance, if it started from a model in a file
    pointer      where the snapshot was in the models topic; of a merged model, which was in none, -1
    messages     the snapshot's, in their order
    names        key of a base feature -> its name
    merged_from  what it was made of, in order, if models were merged
    """

    group: str
    topic: str
    partition: int
    settings: dict[str, dict[str, Any]]
    lineage: Lineage
    pointer: SnapshotPointer
    messages: list[bytes]
    names: dict[int, str]
    merged_from: tuple[MergedFrom, ...] = ()

    def restore(self, model: PartitionModel) -> None:
        """Write the state into a new model of these settings; SnapshotError if that is not what the file says."""
        decoder = SnapshotDecoder(model, self.pointer)
        for message in self.messages[: decoder.left]:
            decoder.add(message)
        if decoder.left:
            raise SnapshotError(f"expected {decoder.left} more messages of the snapshot, found none")


def model_file_of(
    model: PartitionModel,
    group: str,
    settings: Mapping[str, Mapping[str, Any]],
    pointer: SnapshotPointer,
    names: Names,
    merged_from: Sequence[MergedFrom] = (),
) -> bytes:
    """The file's content. `pointer` is where the model's state has come from, and has its digest."""
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
        }
        | ({"merged_from": list(merged_from)} if merged_from else {})
    )
    line = b"%s%d" % (FILE_MAGIC, FORMAT)
    return line + b"\n" + xxhash.xxh3_128_digest(line + content) + content


def read_model_file(content: bytes, place: str) -> SavedModel:
    """What the file at `place` holds; SnapshotError if it is damaged or no such file."""
    line, found, rest = content.partition(b"\n")
    version = line.removeprefix(FILE_MAGIC)
    if not found or not line.startswith(FILE_MAGIC) or not version.isdigit():
        raise SnapshotError(f"{place}: expected a file that `inspect --save` has written, or `merge`, found another")
    if int(version) > FORMAT:
        raise SnapshotError(
            f"{place}: expected format {FORMAT} or older, found {int(version)}: a newer version of "
            f"stream_apple wrote it"
        )
    expected, body = rest[:_DIGEST_BYTES], rest[_DIGEST_BYTES:]
    digest = xxhash.xxh3_128_digest(line + body)
    if digest != expected:
        raise SnapshotError(
            f"{place}: expected content with digest {expected.hex()}, found {digest.hex()}: the file is damaged, or "
            f"its end is missing"
        )
    try:
        told = msgpack.unpackb(body, strict_map_key=False)
        gaps, skips = tuple(Gap(*gap) for gap in told["gaps"]), tuple(told.get("skips", ()))
        lineage = Lineage(told["start"], told["model"], gaps, skips)
        return SavedModel(
            told["group"],
            told["topic"],
            told["partition"],
            told["settings"],
            lineage,
            SnapshotPointer(*told["pointer"]),
            told["messages"],
            told["names"],
            tuple(MergedFrom(*each) for each in told.get("merged_from", ())),
        )
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise SnapshotError(f"{place}: expected the parts of a saved model, found: {error!r}") from error
