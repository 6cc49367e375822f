"""What must hold of merging at every commit."""

import json
from typing import Any

from stream_apple.stream.positions.merge_note import BoundaryState


def note_of(metadata: str) -> dict[str, Any]:
    """What is committed about merging, and where the snapshot is."""
    content = json.loads(metadata) if metadata.startswith("{") else {}  # tests of the broker commit other texts
    return {**content.get("merge", {}), "snapshot": content.get("snapshot")}


def check_commit(offset: int, metadata: str, before: str | None) -> None:
    """AssertionError if what is to be noted beside an offset can't be, after what was noted before."""
    note, last = note_of(metadata), {} if before is None else note_of(before)
    boundary, snapshot, merged = note.get("boundary"), note["snapshot"], note.get("merged")
    if boundary is not None:
        _, at, state = boundary
        if state == BoundaryState.CONTRIBUTED:
            assert snapshot[0] == at == offset, f"expected a contribution at {at}, where it waits, found {metadata}"
        if state == BoundaryState.ADOPTED:
            assert snapshot[0] >= at, f"expected no replay to cross the adoption at {at}, found {metadata}"
    if last.get("merged") is not None:
        assert merged is not None, f"expected {last['merged']} or a newer merge to be noted, found {metadata}"
        assert merged[1] >= last["merged"][1], f"expected no older merge than {last['merged']}, found {metadata}"
