"""What is recorded of merges that nobody has made, and what a loop is given that makes none."""

from collections.abc import Mapping
from typing import Any

from stream_apple.stream.log.ports import Broker
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.positions.lineage import Provenance
from stream_apple.stream.snapshots.merge_history import MergeHistory
from stream_apple.stream.snapshots.merge_messages import Exclusion, MergeManifest, RosterEntry


def summary_of(
    number: int, members: tuple[int, ...], left_out: Mapping[int, str]
) -> tuple[MergeManifest, float, int, int]:
    """A merge of half a second, which read 1000 bytes, wrote 300, and lost two parents."""
    roster = tuple(RosterEntry(partition, 9, -1, -1, "f" * 32) for partition in members)
    excluded = tuple(Exclusion(*each) for each in left_out.items())
    counts = {"parents_lost": 1, "parents_evicted": 1}
    partitions = len(roster) + len(excluded)
    return MergeManifest(number, partitions, roster, excluded, "f" * 32, counts, MergeHistory()), 0.5, 1000, 300


class Unheard:
    """Takes what is told of merges, of which there are none."""

    def dropped(self, partitions: Mapping[int, object]) -> None:
        """No partition is ever held."""
        assert not partitions


def nothing_merged(broker: Broker, provenance: Provenance) -> MergingContext:
    """For a group in which each partition keeps a model of its own."""
    nothing: Any = Unheard()
    return MergingContext(broker, provenance, nothing, nothing, nothing)
