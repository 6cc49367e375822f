"""The messages of the merges topic: merged models, back to the bit, and what each partition has gone on with.

A merged model is a list of messages with the keys group/round/0, group/round/1, ...: blocks of its table, as a snapshot
has them (`snapshots/blocks.py`), and a manifest at the end. Each is an envelope, a msgpack map:

    v      format of the messages of this topic
    slots  format of the blocks, that of snapshots (`snapshots/versions.py`)
    group, round
    index  0, 1, ...; the manifest is the last
    of     number of messages
    data   a zstd frame with a checksum: a block's columns, or the manifest as a msgpack map

The manifest says who is in the merge, with the digest of each contribution, who is not, and why; the digest of the
merged model, the rest of its state, and all merges before. An adoption record is one msgpack map with the key
group/adopted/partition. Other groups may write to the same topic.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgpack
import zstandard

from stream_apple.core.learner.merging.mergeable import Mergeable, mergeable_from
from stream_apple.core.learner.new_model import extent_of
from stream_apple.core.learner.options import Options
from stream_apple.core.learner.state.table import check_finite, empty_table
from stream_apple.errors import SnapshotError
from stream_apple.runtime.merging.history import MergeHistory
from stream_apple.runtime.merging.note import BoundaryState, MergedPointer
from stream_apple.runtime.snapshots.blocks import (
    blocks_of,
    compressor,
    constant_of,
    decode_block,
    decompressed,
    encode_block,
    packed,
    unpacked,
    write_constant,
)
from stream_apple.runtime.snapshots.versions import VERSION, upgrade_manifest

FORMAT = 1
_DAMAGES = (ValueError, TypeError, KeyError, AttributeError, msgpack.UnpackException, zstandard.ZstdError)


class RosterEntry(NamedTuple):
    """A contribution to a merge: where the snapshot is, as `SnapshotPointer` says it."""

    partition: int
    at: int
    first: int
    last: int
    digest: str


class Exclusion(NamedTuple):
    """A partition that is not in a merge, and why: "idle", "late", "passed" or "displaced"."""

    partition: int
    reason: str


class MergeManifest(NamedTuple):
    """What is recorded of a merge.

    partitions  how many the examples topic had
    roster      who is in it, by partition: in the order in which the models were merged
    excluded    all other partitions
    digest      of the merged model
    counts      what was done with monomials, as of `MergeCounts`
    history     the merges before
    """

    round: int
    partitions: int
    roster: tuple[RosterEntry, ...]
    excluded: tuple[Exclusion, ...]
    digest: str
    counts: Mapping[str, int]
    history: MergeHistory

    def includes(self, partition: int, at: int) -> bool:
        """Whether what the partition had become at this offset is in the merge."""
        return any((each.partition, each.at) == (partition, at) for each in self.roster)


class AdoptionRecord(NamedTuple):
    """With what a partition goes on behind a boundary.

    at        the first offset that it had not learned
    state     ADOPTED or SKIPPED
    included  whether its contribution is in the merge
    merged    where the merged model is, and `digest` its digest; None if skipped
    model     digest of the partition's model as it goes on
    """

    partition: int
    at: int
    round: int
    state: BoundaryState
    included: bool
    merged: MergedPointer | None
    digest: str | None
    model: str


def merge_key(group: str, number: int, index: int) -> bytes:
    """The key of message `index` of the merged model of round `number`."""
    return f"{group}/{number}/{index}".encode()


def round_of(key: bytes) -> int:
    """The round that a key of `merge_key` is about."""
    return int(key.rsplit(b"/", 2)[1])


def adoption_key(group: str, partition: int) -> bytes:
    """The key of a partition's adoption records."""
    return f"{group}/adopted/{partition}".encode()


def encode_merge(group: str, manifest: MergeManifest, model: Mergeable) -> list[bytes]:
    """The messages of a merged model, in order; ModelError if a weight is not finite, which must never be kept."""
    blocks, compress = blocks_of(model.table), compressor()
    check_finite(model.table, 0, len(model.table.slots))
    contents = [encode_block(model.table, start, stop) for start, stop in blocks]
    contents.append(
        msgpack.packb(
            {
                "partitions": manifest.partitions,
                "roster": manifest.roster,
                "excluded": manifest.excluded,
                "digest": manifest.digest,
                "counts": manifest.counts,
                "merges": manifest.history.merges,
                "dropped": manifest.history.dropped,
                "options": model.options.identity(),
                **constant_of(model.table),
                "arrays": packed(model.sums),
            }
        )
    )
    envelope = {"v": FORMAT, "slots": VERSION, "group": group, "round": manifest.round}
    return [
        bytes(
            msgpack.packb(
                {**envelope, "index": index, "of": len(contents), "data": compress.compress(content)},
            )
        )
        for index, content in enumerate(contents)
    ]


class _Opened(NamedTuple):
    """The content of an envelope."""

    slots: int
    place: int
    of: int
    data: bytes


def _open(group: str, number: int, value: bytes | None) -> _Opened:
    """What is in a message of a round's merged model; SnapshotError if it is not one."""
    try:
        envelope: Mapping[str, Any] = msgpack.unpackb(value)
        for name, known in (("v", FORMAT), ("slots", VERSION)):
            found = envelope[name]
            if not isinstance(found, int) or not 0 < found <= known:
                raise SnapshotError(
                    f"expected {name} {known} or older, found {found}: a newer version of stream_apple wrote it"
                )
        if (envelope["group"], envelope["round"]) != (group, number):
            raise SnapshotError(
                f"expected a message of round {number} of group {group}, found one of round {envelope['round']} of "
                f"group {envelope['group']}"
            )
        index, of = int(envelope["index"]), int(envelope["of"])
        return _Opened(envelope["slots"], index, of, decompressed(envelope["data"]))
    except _DAMAGES as error:
        raise SnapshotError(f"expected an undamaged message of a merged model, found: {error!r}") from error


def read_manifest(group: str, number: int, value: bytes | None) -> MergeManifest:
    """What is recorded of a round's merge, from the last of its messages; SnapshotError if that is not what it is."""
    opened = _open(group, number, value)
    if opened.place != opened.of - 1:
        raise SnapshotError(f"expected the last message of round {number}, found message {opened.place} of {opened.of}")
    return _manifest(number, _content(opened))


def _content(opened: _Opened) -> dict[str, Any]:
    try:
        content: dict[str, Any] = msgpack.unpackb(opened.data, strict_map_key=False)
        return upgrade_manifest(opened.slots, content)
    except _DAMAGES as error:
        raise SnapshotError(f"expected a manifest, found: {error!r}") from error


def _manifest(number: int, content: Mapping[str, Any]) -> MergeManifest:
    try:
        history = MergeHistory(
            tuple(MergedPointer(*_whole(each)) for each in content["merges"]),
            tuple((int(first), int(last)) for first, last in content["dropped"]),
        )
        roster = tuple(_entry(*each) for each in content["roster"])
        excluded = tuple(Exclusion(int(partition), str(reason)) for partition, reason in content["excluded"])
        counts = {str(name): int(count) for name, count in content["counts"].items()}
        return MergeManifest(
            number, int(content["partitions"]), roster, excluded, str(content["digest"]), counts, history
        )
    except (*_DAMAGES, IndexError) as error:
        raise SnapshotError(f"expected a manifest, found: {error!r}") from error


def _entry(partition: int, at: int, first: int, last: int, digest: str) -> RosterEntry:
    _whole([partition, at, first, last])
    return RosterEntry(partition, at, first, last, str(digest))


def _whole(numbers: Sequence[Any]) -> list[int]:
    if not all(isinstance(each, int) for each in numbers):
        raise TypeError(f"expected whole numbers, found {numbers}")
    return list(numbers)


class MergeDecoder:
    """Writes a merged model into memory of its own, message by message.

    options   of the models that were merged

    model     of use only if nothing is `left`
    manifest  None before that
    """

    def __init__(self, group: str, number: int, options: Options) -> None:
        self._group = group
        self._round = number
        self._next = 0
        self.model = Mergeable(options, empty_table(int(options.bits or 0), extent_of(options)), {})
        self.manifest: MergeManifest | None = None
        self._blocks = blocks_of(self.model.table)

    @property
    def key(self) -> bytes:
        """That of the next message."""
        return merge_key(self._group, self._round, self._next)

    @property
    def left(self) -> int:
        """Messages still to come."""
        return len(self._blocks) + 1 - self._next

    def add(self, value: bytes | None) -> None:
        """Take in the next message; SnapshotError if it is not the one that must come now."""
        opened = _open(self._group, self._round, value)
        if (opened.place, opened.of) != (self._next, len(self._blocks) + 1):
            raise SnapshotError(
                f"expected message {self._next} of {len(self._blocks) + 1}, found message {opened.place} of {opened.of}"
            )
        try:
            if self._next < len(self._blocks):
                decode_block(opened.slots, opened.data, self.model.table, *self._blocks[self._next])
            else:
                self._finish(_content(opened))
        except _DAMAGES as error:
            raise SnapshotError(f"message {self._next}: expected a merged model, found: {error!r}") from error
        self._next += 1

    def _finish(self, content: Mapping[str, Any]) -> None:
        options, table, _ = self.model
        if content["options"] != options.identity():
            raise SnapshotError(
                f"the manifest: expected options {options.identity()}, found {content['options']}: models of other "
                f"settings were merged"
            )
        manifest = _manifest(self._round, content)
        write_constant(table, content)
        # Arrays of its own: what comes out of a message can't be written to.
        self.model = mergeable_from(
            options, table, {name: array.copy() for name, array in unpacked(content["arrays"]).items()}
        )
        if (found := self.model.digest()) != manifest.digest:
            raise SnapshotError(f"expected a merged model with digest {manifest.digest}, found {found}")
        self.manifest = manifest


def encode_adoption(group: str, record: AdoptionRecord) -> bytes:
    """The message of an adoption record."""
    return bytes(msgpack.packb({"v": FORMAT, "group": group, **record._asdict(), "state": str(record.state)}))


def decode_adoption(group: str, value: bytes | None) -> AdoptionRecord:
    """The record in a message; SnapshotError if it is none of this group, or damaged."""
    try:
        content: dict[str, Any] = msgpack.unpackb(value)
        version, found = content.pop("v"), content.pop("group")
        if not isinstance(version, int) or not 0 < version <= FORMAT:
            raise SnapshotError(
                f"expected an adoption record of format {FORMAT} or older, found {version}: a newer version of "
                f"stream_apple wrote it"
            )
        if found != group:
            raise SnapshotError(f"expected an adoption record of group {group}, found one of {found}")
        _whole([content[name] for name in ("partition", "at", "round")])
        merged = content["merged"]
        pointer = None if merged is None else MergedPointer(*_whole(merged))
        _check_adoption(content)
        return AdoptionRecord(**{**content, "state": BoundaryState(content["state"]), "merged": pointer})
    except _DAMAGES as error:
        raise SnapshotError(f"expected an adoption record, found: {error!r}") from error


def _check_adoption(content: Mapping[str, Any]) -> None:
    """ValueError unless what a record says goes together."""
    adopted = content["state"] == BoundaryState.ADOPTED
    texts = [content["model"], content["digest"]] if adopted else [content["model"]]
    absent = [] if adopted else [content["merged"], content["digest"]]
    sound = (
        content["state"] in (BoundaryState.ADOPTED, BoundaryState.SKIPPED)
        and all(isinstance(text, str) for text in texts)
        and not any(part is not None for part in absent)
        and (content["merged"] is not None) == adopted
        and content["included"] in ((True, False) if adopted else (False,))
    )
    if not sound:
        raise ValueError(f"what does not go together: {content}")
