"""Models that learned from different examples, merged: what tests of the merges topic are about."""

from functools import cache

from support.records import DECODER, SETTINGS, TOPIC, stream

from stream_apple.learners.apple.merging.merge import merge
from stream_apple.learners.merging_port import Merged
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage
from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.merge_history import MergeHistory
from stream_apple.stream.snapshots.merge_messages import Exclusion, MergeManifest, RosterEntry

OPTIONS = SETTINGS.options
GROUP = "group"
HISTORY = MergeHistory((MergedPointer(4, 7, 12), MergedPointer(2, 20, 29)), ((0, 1),))
ROSTER = (RosterEntry(0, 120, 5, 6, "0" * 32), RosterEntry(2, 117, 0, 1, "f" * 32))
EXCLUDED = (Exclusion(1, "late"),)


def learned(partition: int, count: int = 120) -> PartitionModel:
    """A partition's model that has learned its first records."""
    model = PartitionModel(TOPIC, partition, Lineage(0, "0123456789abcdef"), SETTINGS, DECODER)
    model.process(stream(count, seed=7, partition=partition))
    return model


@cache
def merged() -> Merged:
    """What two such models become."""
    return merge([learned(partition).learner for partition in (0, 2)])


def manifest(number: int = 3, history: MergeHistory = HISTORY) -> MergeManifest:
    """What is recorded of that merge."""
    outcome = merged()
    return MergeManifest(number, 3, ROSTER, EXCLUDED, outcome.model.digest(), outcome.counts._asdict(), history)
