"""Adoption records: the merges topic records with which model each partition went on behind the end of a round.

A record is one msgpack map with the key group/adopted/partition. Merged models are in the same topic
(`snapshots/merge_messages.py`).
"""

from typing import Literal, NamedTuple

import msgpack

from stream_apple.errors import FormatError, SnapshotError
from stream_apple.stream.positions.lineage import START_OVER
from stream_apple.stream.positions.merge_note import BoundaryState, MergedPointer
from stream_apple.untrusted import (
    Closed,
    MalformedError,
    Offset,
    PartitionNumber,
    RoundNumber,
    StateHash,
    Versioned,
    in_short,
    of_kind,
    unpacked_msgpack,
)

FORMAT = 1


class AdoptionRecord(NamedTuple):
    """Says with which model a partition goes on behind a boundary.

    at        the first offset that it had not learned
    state     ADOPTED or SKIPPED
    included  whether its contribution is in the merge
    merged    where the merged model is; None if skipped
    digest    of the merged model; None if skipped
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


def adoption_key(group: str, partition: int) -> bytes:
    """Return the key of a partition's adoption records."""
    return f"{group}/adopted/{partition}".encode()


class _Adoption(Closed):
    """Checks an adoption record as it is stored."""

    v: int
    group: str
    partition: PartitionNumber
    at: Offset
    round: RoundNumber
    state: Literal["adopted", "skipped"]
    included: bool
    merged: MergedPointer | None
    digest: StateHash | None
    model: StateHash


def encode_adoption(group: str, record: AdoptionRecord) -> bytes:
    """Return the message of an adoption record."""
    return bytes(msgpack.packb({"v": FORMAT, "group": group, **record._asdict(), "state": str(record.state)}))


def decode_adoption(group: str, value: bytes | None) -> AdoptionRecord:
    """Return the record in a message; SnapshotError if it is of another group, of another format, or damaged."""
    try:
        content = unpacked_msgpack(value)
        version = of_kind(Versioned, content).v
        if version != FORMAT:
            raise FormatError(f"expected an adoption record of format {FORMAT}, found {version}; {START_OVER}")
        found = of_kind(_Adoption, content)
    except MalformedError as error:
        raise SnapshotError(f"expected an adoption record, found: {error}") from error
    if found.group != group:
        raise SnapshotError(f"expected an adoption record of group {group}, found one of {in_short(found.group)}")
    parts = found.model_dump(exclude={"v", "group"})
    record = AdoptionRecord(**{**parts, "state": BoundaryState(found.state), "merged": found.merged})
    adopted = record.state is BoundaryState.ADOPTED
    told = [part is not None for part in (record.merged, record.digest)]
    if told != [adopted, adopted] or (record.included and not adopted):
        raise SnapshotError(f"expected an adoption record, found what does not go together: {in_short(parts)}")
    return record
