"""The messages of merged models in the merges topic: how they are written, and read back to the bit.

A merged model is a list of messages with the keys group/round/0, group/round/1, ...: blocks of its rows, as a snapshot
has them (`snapshots/blocks.py`), and a manifest at the end. Each is an envelope, a msgpack map:

    v      format, see `blocks.FORMAT`
    group, round
    index  0, 1, ...; the manifest is the last
    of     number of messages
    data   a zstd frame with a checksum: a block's columns, or the manifest as a msgpack map

The manifest says which partitions are in the merge, with the digest of each contribution, and which are not, and why.
It also has the digest of the merged model, the rest of its state, and all earlier merges. Adoption records
(`merging/adoptions.py`), and messages of other groups, may be in the same topic.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgpack

from stream_apple.core.named_arrays import check_kinds
from stream_apple.errors import SnapshotError
from stream_apple.learners.merging_port import Mergeable
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.state import LearnerState, block_bounds, bytes_of_rows
from stream_apple.learners.systems import merging_of, new_learner
from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.blocks import (
    DAMAGES,
    FORMAT,
    MOST_OF_A_MANIFEST,
    StoredSums,
    check_format,
    compressor,
    decode_block,
    decompressed,
    encode_block,
    packed,
    unpacked,
)
from stream_apple.stream.snapshots.merge_history import MergeHistory
from stream_apple.untrusted import (
    Offset,
    PartitionNumber,
    RoundNumber,
    StateHash,
    Stored,
    Versioned,
    because,
    from_msgpack,
    in_short,
    of_kind,
    unpacked_msgpack,
)


class RosterEntry(NamedTuple):
    """A contribution to a merge: where its snapshot is, with the fields of `SnapshotPointer`."""

    partition: PartitionNumber
    at: Offset
    first: Offset
    last: Offset
    digest: StateHash


class Exclusion(NamedTuple):
    """A partition that is not in a merge, and why: "idle", "late", "passed" or "displaced"."""

    partition: PartitionNumber
    reason: str


class MergeManifest(NamedTuple):
    """Records what a merge was made of.

    partitions  how many the examples topic had
    roster      the contributions, in ascending partition number, which is the order in which they were merged
    excluded    all other partitions
    digest      of the merged model
    counts      the fields of `MergeCounts`
    history     the earlier merges
    """

    round: int
    partitions: int
    roster: tuple[RosterEntry, ...]
    excluded: tuple[Exclusion, ...]
    digest: str
    counts: Mapping[str, int]
    history: MergeHistory

    @property
    def members(self) -> tuple[int, ...]:
        """Return the partitions that are in the merge."""
        return tuple(each.partition for each in self.roster)

    @property
    def left_out(self) -> dict[int, str]:
        """Return each partition that is not in it, and why."""
        return {each.partition: each.reason for each in self.excluded}

    @property
    def lost_parents(self) -> int:
        """Return how many nominees had not enough votes, and how many parents found no slot, together."""
        return self.counts["parents_lost"] + self.counts["parents_evicted"]

    def includes(self, partition: int, at: int) -> bool:
        """Whether the partition's model at this offset is in the merge."""
        return any((each.partition, each.at) == (partition, at) for each in self.roster)


def merge_key(group: str, number: int, index: int | None = None) -> bytes:
    """Return the key of message `index` of a round's merged model; for None, what all of its keys begin with."""
    return f"{group}/{number}/{'' if index is None else index}".encode()


def encode_merge(group: str, manifest: MergeManifest, model: Mergeable) -> list[bytes]:
    """Return the messages of a merged model; ModelError if a weight is not finite: that is never kept."""
    compress, state = compressor(), model.state
    contents = [encode_block(state.rows, start, stop) for start, stop in block_bounds(state.rows)]
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
                "arrays": packed(state.sums),
            }
        )
    )
    envelope = {"v": FORMAT, "group": group, "round": manifest.round}
    data = [compress.compress(content) for content in contents]
    return [
        bytes(msgpack.packb({**envelope, "index": index, "of": len(data), "data": each}))
        for index, each in enumerate(data)
    ]


class Envelope(Stored):
    """Checks the envelope of a message of a merged model."""

    group: str
    round: int
    index: int
    of: int
    data: bytes

    @property
    def last(self) -> bool:
        """Whether this message is the manifest."""
        return self.index == self.of - 1


class StoredMerge(StoredSums):
    """Checks the manifest of a merged model."""

    partitions: PartitionNumber
    roster: tuple[RosterEntry, ...]
    excluded: tuple[Exclusion, ...]
    digest: StateHash
    counts: dict[str, int]
    merges: tuple[MergedPointer, ...]
    dropped: tuple[tuple[RoundNumber, RoundNumber], ...]
    options: Any

    def manifest(self, number: int) -> MergeManifest:
        """Return the record of the merge, given its round."""
        history = MergeHistory(self.merges, self.dropped)
        return MergeManifest(number, self.partitions, self.roster, self.excluded, self.digest, self.counts, history)


def _open(group: str, number: int, value: bytes | None) -> Envelope:
    """Return the envelope of a message of a round's merged model; else SnapshotError."""
    try:
        content = unpacked_msgpack(value)
        check_format(of_kind(Versioned, content).v)
        envelope = of_kind(Envelope, content)
    except DAMAGES as error:
        raise SnapshotError(f"expected an undamaged message of a merged model, found: {because(error)}") from error
    if (envelope.group, envelope.round) != (group, number):
        raise SnapshotError(
            f"expected a message of round {number} of group {group}, found one of round {envelope.round} of "
            f"group {in_short(envelope.group)}"
        )
    return envelope


def _data(envelope: Envelope, most: int) -> bytes:
    try:
        return decompressed(envelope.data, most)
    except DAMAGES as error:
        raise SnapshotError(f"expected an undamaged message of a merged model, found: {because(error)}") from error


def read_manifest(group: str, number: int, value: bytes | None) -> MergeManifest:
    """Return the record of a round's merge from the last of its messages; SnapshotError if `value` is not that one."""
    envelope = _open(group, number, value)
    if not envelope.last:
        raise SnapshotError(
            f"expected the last message of round {number}, found message {envelope.index} of {envelope.of}"
        )
    return _content(envelope).manifest(number)


def _content(envelope: Envelope) -> StoredMerge:
    data = _data(envelope, MOST_OF_A_MANIFEST)
    try:
        return from_msgpack(StoredMerge, data)
    except DAMAGES as error:
        raise SnapshotError(f"expected a manifest, found: {because(error)}") from error


class ManifestDecoder:
    """Takes in the last message of a merged model.

    manifest  the record of the merge; None before it has come
    """

    def __init__(self, group: str, number: int) -> None:
        self._group = group
        self._round = number
        self.manifest: MergeManifest | None = None

    @property
    def left(self) -> int:
        """Return how many messages are still to come."""
        return int(self.manifest is None)

    def add(self, value: bytes | None) -> None:
        """Take in the message; SnapshotError if it is another one."""
        self.manifest = read_manifest(self._group, self._round, value)


class MergeDecoder:
    """Writes a merged model into memory of its own, message by message.

    options   of the models that were merged

    model     the merged model; it can be used when nothing is `left`
    manifest  the record of the merge; None as long as anything is `left`
    """

    def __init__(self, group: str, number: int, options: LearnerOptions) -> None:
        self._group = group
        self._round = number
        self._next = 0
        self.model = merging_of(options).mergeable_of(new_learner(options))
        self.manifest: MergeManifest | None = None
        self._rows = self.model.state.rows
        self._blocks = block_bounds(self._rows)

    @property
    def left(self) -> int:
        """Return how many messages are still to come."""
        return len(self._blocks) + 1 - self._next

    def add(self, value: bytes | None) -> None:
        """Take in the next message; SnapshotError if it is not the one that must come now."""
        envelope = _open(self._group, self._round, value)
        if (envelope.index, envelope.of) != (self._next, len(self._blocks) + 1):
            raise SnapshotError(
                f"expected message {self._next} of {len(self._blocks) + 1}, found message {envelope.index} of "
                f"{envelope.of}"
            )
        try:
            if self._next < len(self._blocks):
                start, stop = self._blocks[self._next]
                decode_block(_data(envelope, bytes_of_rows(self._rows, start, stop)), self._rows, start, stop)
            else:
                self._finish(_content(envelope))
        except DAMAGES as error:
            raise SnapshotError(f"message {self._next}: expected a merged model, found: {because(error)}") from error
        self._next += 1

    def _finish(self, content: StoredMerge) -> None:
        options, state = self.model
        if content.options != options.identity():
            raise SnapshotError(
                f"the manifest: expected options {options.identity()}, found {in_short(content.options)}: models of "
                f"other settings were merged"
            )
        given = unpacked(content.arrays)
        check_kinds(state.sums, given)
        # The arrays are copied, as those in a message are read-only.
        sums = {name: given[name].copy() for name in state.sums}
        self.model = Mergeable(options, LearnerState(state.rows, sums))
        if (found := self.model.digest()) != content.digest:
            raise SnapshotError(f"expected a merged model with digest {content.digest}, found {found}")
        self.manifest = content.manifest(self._round)
