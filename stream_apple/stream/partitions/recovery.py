"""Where the model of a newly assigned partition comes from, decided by what is committed and what is in the log.

    nothing committed             a new model, from the first record that the log has
    committed, model still here   go on from where it stands, unless it has learned what was never committed
    committed, with a snapshot    a new model that is restored from it and replays up to the committed offset
    committed, without one        a new model that replays from its first record

A model that replays learns records again and publishes nothing. Records that it needs and the log no longer has are a
gap: GapError, unless the operator has accepted that very gap by name. A record at which every worker fails is left out,
too, if the operator has named it before it was answered. This module only plans: `loop/owned_partitions.py` carries the
plan out, and the check before a start reads it. `snapshots/evidence.py` says whether what is committed can be believed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from stream_apple.config import Config
from stream_apple.errors import ConfigurationError, GapError, SnapshotError
from stream_apple.stream.log.ports import Committed, LogRange
from stream_apple.stream.positions.lineage import (
    MAX_GAPS,
    MAX_SKIPS,
    NEW_MODEL,
    NO_SNAPSHOT,
    Gap,
    Lineage,
    Provenance,
    Skip,
    SnapshotPointer,
)
from stream_apple.stream.positions.merge_note import MergeNote

if TYPE_CHECKING:
    # A worker plans before it fences its predecessor, and the module of a model imports numpy, which takes long.
    from stream_apple.stream.model.partition_model import PartitionModel


class Exceptions(NamedTuple):
    """Holds the records that the operator lets models leave out.

    gaps   (partition, first missing offset) of each gap that may be jumped over
    skips  (partition, offset) of each record that becomes a dead letter unread
    """

    gaps: frozenset[tuple[int, int]] = frozenset()
    skips: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def of(cls, config: Config) -> "Exceptions":
        """Return the exceptions that the configuration names."""
        return cls(config.worker.accepted_gaps, config.worker.skipped_records)


NO_EXCEPTIONS = Exceptions()


class Jump(NamedTuple):
    """A gap that the model has to leave out, and its lineage from then on."""

    lineage: Lineage
    gap: Gap


class RecoveryPlan(NamedTuple):
    """Says where the model of a partition comes from.

    lineage       of the model, before any jump
    publish_from  the committed offset: records before it are learned, and give no output
    kept          the model that is still here and goes on; None if one must be made
    snapshot      the newest one of the model, if there is any
    jump          the gap to leave out before the first record, from where `kept` or the snapshot stands; None: no gap
    skips         records that the model leaves out further on, in their order
    first         whether nothing is committed, so that the model is new as far as the group knows
    merge         the committed note about merging; None where models are not merged
    """

    lineage: Lineage
    publish_from: int
    kept: "PartitionModel | None" = None
    snapshot: SnapshotPointer | None = None
    jump: Jump | None = None
    skips: Sequence[Skip] = ()
    first: bool = False
    merge: MergeNote | None = None

    @property
    def restore(self) -> bool:
        """Whether the model must be made and read from the snapshot."""
        return self.kept is None and self.snapshot is not None

    @property
    def fetch_from(self) -> int:
        """Return the offset of the first record to fetch."""
        return self._next_offset if self.jump is None else self.jump.gap.stop

    @property
    def _next_offset(self) -> int:
        """Return the offset of the first record that the model has not learned, before any jump."""
        if self.kept is not None:
            return self.kept.next_offset
        return self.lineage.start if self.snapshot is None else self.snapshot.at


def plan_recovery(
    provenance: Provenance,
    exceptions: Exceptions,
    partition: int,
    committed: Committed | None,
    log: LogRange,
    kept: "PartitionModel | None" = None,
) -> RecoveryPlan:
    """Plan for the model of `partition`, by what is committed, what is in the log, and the model kept, if any.

    ConfigurationError if the committed offset belongs to another model, or if a record that is to be skipped has been
    answered; GapError if records are gone.
    """
    if committed is None:
        merge = None if provenance.merging is None else MergeNote.of(provenance.merging)
        plan = RecoveryPlan(provenance.lineage(partition, log.low), log.low, first=True, merge=merge)
        return _with_skips(plan, provenance, partition, exceptions)
    lineage, snapshot, merge = provenance.read_metadata(partition, committed)
    topic = provenance.topics.examples
    if committed.offset > log.high:
        raise GapError(
            f"expected {topic}-{partition} to reach the committed offset {committed.offset} of group "
            f"{provenance.group}, found its end at {log.high}: was the topic made anew? "
            f"If so, {NEW_MODEL}"
        )
    saved = 0 if snapshot is None else snapshot.at
    # A kept model that stands before the snapshot may need records that are gone, as no other model needs them.
    usable = kept is not None and kept.lineage == lineage and saved <= kept.next_offset <= committed.offset
    if kept is not None and kept.rounds is not None:
        usable &= kept.rounds.agrees_with(None if merge is None else merge.boundary)
    plan = RecoveryPlan(lineage, committed.offset, kept if usable else None, snapshot, merge=merge)
    if plan.fetch_from >= log.low:
        return _with_skips(plan, provenance, partition, exceptions)
    gap = Gap(plan.fetch_from, log.low)
    if (partition, gap.start) not in exceptions.gaps:
        raise GapError(_explanation(provenance, partition, lineage, gap, max(gap.stop - committed.offset, 0)))
    gaps = (*lineage.gaps, gap)
    if len(gaps) > MAX_GAPS:
        raise ConfigurationError(
            f"expected at most {MAX_GAPS} gaps in a model's history, found one more in {topic}-{partition} at "
            f"{gap.start}: {NEW_MODEL}"
        )
    jump = Jump(provenance.lineage(partition, lineage.start, gaps, lineage.skips), gap)
    return _with_skips(plan._replace(jump=jump), provenance, partition, exceptions)


def can_replay(provenance: Provenance, plan: RecoveryPlan, log: LogRange, models: LogRange) -> bool:
    """Whether the log of examples can replace a snapshot that was deleted from the start of the models log."""
    whole = provenance.merging is None and max(log.low, plan.lineage.left_out) <= plan.lineage.start
    return whole and plan.snapshot is not None and plan.snapshot.first < models.low and plan.snapshot.last < models.high


def check_in_log(provenance: Provenance, partition: int, pointer: SnapshotPointer, log: LogRange) -> None:
    """Raise SnapshotError if the log can't hold all messages of the snapshot: compaction keeps newest ones in place."""
    if log.low > pointer.first or log.high <= pointer.last:
        raise SnapshotError(
            f"{provenance.topics.models}-{partition}: expected the snapshot in messages {pointer.first} to "
            f"{pointer.last}, found {log.low} to {log.high - 1} in the log: {NO_SNAPSHOT}"
        )


def _with_skips(plan: RecoveryPlan, provenance: Provenance, partition: int, exceptions: Exceptions) -> RecoveryPlan:
    """Return the plan with the records that the operator wants skipped and that are neither answered nor gone.

    ConfigurationError if one of them has been answered, or if they are too many.
    """
    lineage = plan.lineage if plan.jump is None else plan.jump.lineage
    due = []
    for offset in sorted(offset for number, offset in exceptions.skips if number == partition):
        left_out = offset in lineage.skips or any(offset in range(*gap) for gap in lineage.gaps)
        if offset >= max(plan.publish_from, plan.fetch_from):
            due.append(offset)
        elif offset >= lineage.start and not left_out:
            raise ConfigurationError(
                f"worker.skip: expected a record of {provenance.topics.examples}-{partition} that has no answer yet, "
                f"found {partition}@{offset}, which model {lineage.model} of group {provenance.group} has answered "
                f"(it is committed up to {plan.publish_from}): take it out; only a new worker.group can leave it out"
            )
    if len(lineage.skips) + len(due) > MAX_SKIPS:
        raise ConfigurationError(
            f"worker.skip: expected at most {MAX_SKIPS} skipped records in a model's history, found "
            f"{len(lineage.skips)} in that of {provenance.topics.examples}-{partition}, and {len(due)} more: mend what "
            f"produces them, and {NEW_MODEL}"
        )
    return plan._replace(skips=tuple(provenance.skips(partition, lineage, due)))


def _explanation(provenance: Provenance, partition: int, lineage: Lineage, gap: Gap, unanswered: int) -> str:
    topic = provenance.topics.examples
    return (
        f"expected the records of {topic}-{partition} from offset {gap.start} on, which model {lineage.model} "
        f"of group {provenance.group} has yet to learn, found {gap.stop} as the first: the others are gone, and "
        f"{unanswered} of them have no prediction yet. To go on without them, set "
        f'worker.accept_gap = ["{partition}@{gap.start}"], and lengthen the retention of {topic}; a new '
        f"worker.group begins a new model"
    )
