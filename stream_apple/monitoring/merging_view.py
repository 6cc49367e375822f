"""The view of a partition where models are merged: its newest boundary, and the group's newest merge."""

from typing import Any, NamedTuple

from stream_apple.errors import GapError, SnapshotError
from stream_apple.stream.log.log_scan import first_record
from stream_apple.stream.positions.lineage import OffsetMetadata, Provenance
from stream_apple.stream.positions.merge_note import BoundaryNote, MergedPointer
from stream_apple.stream.snapshots.merge_messages import MergeManifest, read_manifest
from stream_apple.stream.snapshots.store import Logs

MergeFacts = dict[str, Any]


class MergingView(NamedTuple):
    """Describes a partition where models are merged.

    boundary  its newest one; None before the first
    merge     the group's newest one; None before the first, and if it is gone from the log
    """

    boundary: BoundaryNote | None
    merge: MergeFacts | None


def newest_merge(logs: Logs, provenance: Provenance) -> MergeFacts | None:
    """Return the facts of the newest merge; None if there is none, or if it is gone from the log.

    SnapshotError if the noted message is not the manifest of that merge.
    """
    committed = logs.committed_now([0])[0]
    merge = None if committed is None else provenance.read_metadata(0, committed).merge
    if merge is None or merge.merged is None:
        return None
    manifest = _manifest(logs, provenance, merge.merged)
    return None if manifest is None else {**facts_of(manifest), "digest": manifest.digest}


def facts_of(merge: MergeManifest) -> MergeFacts:
    """Return a merge's round, the partitions that are in it, and for each other one why it is not, in JSON types."""
    excluded = {str(number): reason for number, reason in merge.left_out.items()}
    return {"round": merge.round, "roster": list(merge.members), "excluded": excluded}


def view_merging(metadata: OffsetMetadata, newest: MergeFacts | None) -> MergingView | None:
    """Return the view of a partition; None where models are not merged."""
    return None if metadata.merge is None else MergingView(metadata.merge.boundary, newest)


def _manifest(logs: Logs, provenance: Provenance, pointer: MergedPointer) -> MergeManifest | None:
    topic, (number, _, last) = provenance.topics.merges, pointer
    if logs.log_range(topic, 0).low > last:
        return None
    try:
        record = first_record(logs, topic, 0, range(last, last + 1))
    except GapError:
        return None  # gone since it was looked for
    if record is None or record.offset() != last:
        raise SnapshotError(
            f"{topic}-0@{last}: expected what is recorded of the merge of round {number}, found nothing"
        )
    return read_manifest(provenance.group, number, record.value())
