"""Where the model of a newly assigned partition comes from, decided by what is committed and what is in the log.

    nothing committed             a new model, from the first record that the log has
    committed, model still here   go on from where it stands, unless it has learned what was never committed
    committed, with a snapshot    a new model that is restored from it and replays, silent up to the committed offset
    committed, without one        a new model that replays from its first record

A record that the model needs and the log no longer has is a gap: GapError, never a shortcut, unless the operator has
accepted that very gap by name. Nothing is made or changed here: `owned_partitions.py` carries the plan out, and the
check before a start only reads it. Whether what is committed can be believed is for `snapshots/evidence.py` to say.
"""

from typing import NamedTuple

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.runtime.lineage import MAX_GAPS, Gap, Lineage, Provenance, SnapshotPointer
from stream_apple.runtime.partition_model import PartitionModel
from stream_apple.runtime.ports import Committed, LogRange

AcceptedGaps = frozenset[tuple[int, int]]
"""(partition, first missing offset) of each gap that the operator has accepted."""


class Jump(NamedTuple):
    """A gap that the model has to leave out, and its lineage from then on."""

    lineage: Lineage
    gap: Gap


class RecoveryPlan(NamedTuple):
    """How the model of a partition is to be had.

    lineage       of the model, before any jump
    publish_from  the committed offset: what comes before it is learned in silence
    kept          the model that is still here and goes on; None if one must be made
    snapshot      the newest one of the model, if there is any
    jump          what to do before the first record, when the model stands where `kept` or the snapshot does
    first         nothing is committed: by all that the group knows, the model is a new one
    """

    lineage: Lineage
    publish_from: int
    kept: PartitionModel | None = None
    snapshot: SnapshotPointer | None = None
    jump: Jump | None = None
    first: bool = False

    @property
    def restore(self) -> bool:
        """Whether the model must be made and read from the snapshot."""
        return self.kept is None and self.snapshot is not None

    @property
    def fetch_from(self) -> int:
        """The first record to fetch."""
        return self._stands if self.jump is None else self.jump.gap.stop

    @property
    def _stands(self) -> int:
        """The first record that the model has not learned, before any jump."""
        if self.kept is not None:
            return self.kept.next_offset
        return self.lineage.start if self.snapshot is None else self.snapshot.at


def plan_recovery(
    provenance: Provenance,
    accepted: AcceptedGaps,
    partition: int,
    committed: Committed | None,
    log: LogRange,
    kept: PartitionModel | None = None,
) -> RecoveryPlan:
    """How to have the model of `partition`, given what is committed, what is in the log, and the model kept, if any.

    ConfigurationError if the committed offset belongs to another model, GapError if records are gone.
    """
    if committed is None:
        return RecoveryPlan(provenance.lineage(partition, log.low), log.low, first=True)
    lineage, snapshot = provenance.read_metadata(partition, committed)
    topic = provenance.topics.examples
    if committed.offset > log.high:
        raise GapError(
            f"expected {topic}-{partition} to reach the committed offset {committed.offset} of group "
            f"{provenance.group}, found its end at {log.high}: was the topic made anew? "
            f"Use a new worker.group to begin a new model"
        )
    saved = 0 if snapshot is None else snapshot.at
    # Behind the snapshot, it may need records that nobody else does, and that are gone.
    usable = kept is not None and kept.lineage == lineage and saved <= kept.next_offset <= committed.offset
    plan = RecoveryPlan(lineage, committed.offset, kept if usable else None, snapshot)
    if plan.fetch_from >= log.low:
        return plan
    gap = Gap(plan.fetch_from, log.low)
    if (partition, gap.start) not in accepted:
        raise GapError(_explanation(provenance, partition, lineage, gap, max(gap.stop - committed.offset, 0)))
    gaps = (*lineage.gaps, gap)
    if len(gaps) > MAX_GAPS:
        raise ConfigurationError(
            f"expected at most {MAX_GAPS} gaps in a model's history, found one more in {topic}-{partition} at "
            f"{gap.start}: use a new worker.group to begin a new model"
        )
    return plan._replace(jump=Jump(provenance.lineage(partition, lineage.start, gaps), gap))


def _explanation(provenance: Provenance, partition: int, lineage: Lineage, gap: Gap, unanswered: int) -> str:
    topic = provenance.topics.examples
    return (
        f"expected the records of {topic}-{partition} from offset {gap.start} on, which model {lineage.model} "
        f"of group {provenance.group} has yet to learn, found {gap.stop} as the first: the others are gone, and "
        f"{unanswered} of them have no prediction yet. To go on without them, set "
        f'worker.accept_gap = ["{partition}@{gap.start}"], and lengthen the retention of {topic}; a new '
        f"worker.group begins a new model"
    )
