"""Where the model of a newly assigned partition comes from, decided by what is committed and what is in the log.

    nothing committed             a new model, from the first record that the log has
    committed, model still here   go on from where it stands, unless it has learned what was never committed
    committed, with a snapshot    a new model that is restored from it and replays, silent up to the committed offset
    committed, without one        a new model that replays from its first record

A record that the model needs and the log no longer has is a gap: GapError, never a shortcut, unless the operator has
accepted that very gap by name.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.runtime.lineage import MAX_GAPS, Gap, Lineage, Note, Pointer, committed_note, lineage_of
from stream_apple.runtime.ports import Committed, LogRange
from stream_apple.runtime.step import PartitionModel

NewModel = Callable[[int, Lineage], PartitionModel]
"""(partition, lineage) -> a model that has learned nothing."""
Accepted = frozenset[tuple[int, int]]
"""(partition, first missing offset) of each gap that the operator has accepted."""


class Origin(NamedTuple):
    """Where records come from and what fingerprints are made of."""

    topic: str
    group: str
    model_settings: Mapping[str, Any]


class Jump(NamedTuple):
    """A gap that the model has to leave out, and its lineage from then on."""

    lineage: Lineage
    gap: Gap


class Found(NamedTuple):
    """A model, and what it takes to have it stand where it may go on.

    snapshot  the newest one of the model, if there is any
    restore   whether the model is still empty and the snapshot must be read into it
    jump      what to do then, before the first record
    """

    model: PartitionModel
    snapshot: Pointer | None
    restore: bool
    jump: Jump | None

    @property
    def start(self) -> int:
        """The first record to fetch."""
        if self.jump is not None:
            return self.jump.gap.stop
        return self.snapshot.at if self.restore and self.snapshot is not None else self.model.next_offset


class Plan(NamedTuple):
    """What a worker that keeps no model has to do for one partition. `jump`: as in Found."""

    snapshot: Pointer | None
    jump: Jump | None


def plan(origin: Origin, accepted: Accepted, partition: int, committed: Committed, log: LogRange) -> Plan:
    """How the model of `partition` would be found; ConfigurationError and GapError as `Recovery.find` has them."""
    lineage, snapshot = _noted(origin, partition, committed, log)
    start = lineage.start if snapshot is None else snapshot.at
    return Plan(snapshot, _jump(origin, accepted, partition, committed, log, lineage, start))


class Recovery:
    """Finds or makes models."""

    def __init__(self, origin: Origin, new_model: NewModel, accepted: Accepted = frozenset()) -> None:
        self._origin = origin
        self._new_model = new_model
        self._accepted = accepted

    @property
    def group(self) -> str:
        """The group whose models these are."""
        return self._origin.group

    def find(self, partition: int, committed: Committed | None, log: LogRange, kept: PartitionModel | None) -> Found:
        """The model of `partition`; its `publish_from` is the committed offset.

        ConfigurationError if the committed offset belongs to another model, GapError if records are gone.
        """
        topic, _, settings = self._origin
        if committed is None:
            model = self._new_model(partition, lineage_of(settings, topic, partition, log.low))
            return Found(model, None, restore=False, jump=None)
        lineage, snapshot = _noted(self._origin, partition, committed, log)
        saved = 0 if snapshot is None else snapshot.at
        # Behind the snapshot, it may need records that nobody else does, and that are gone.
        usable = kept is not None and kept.lineage == lineage and saved <= kept.next_offset <= committed.offset
        model = kept if kept is not None and usable else self._new_model(partition, lineage)
        model.publish_from = committed.offset
        found = Found(model, snapshot, restore=not usable and snapshot is not None, jump=None)
        jump = _jump(self._origin, self._accepted, partition, committed, log, lineage, found.start)
        return found._replace(jump=jump)


def _noted(origin: Origin, partition: int, committed: Committed, log: LogRange) -> Note:
    topic, group, settings = origin
    note = committed_note(committed, settings, topic, partition, group)
    if committed.offset > log.high:
        raise GapError(
            f"expected {topic}-{partition} to reach the committed offset {committed.offset} of group {group}, "
            f"found its end at {log.high}: was the topic made anew? Use a new worker.group to begin a new model"
        )
    return note


def _jump(
    origin: Origin,
    accepted: Accepted,
    partition: int,
    committed: Committed,
    log: LogRange,
    lineage: Lineage,
    start: int,
) -> Jump | None:
    """None if everything from `start` on is there; GapError if not, and nobody has accepted it."""
    topic, group, settings = origin
    if start >= log.low:
        return None
    if (partition, start) not in accepted:
        unanswered = max(log.low - committed.offset, 0)
        raise GapError(
            f"expected the records of {topic}-{partition} from offset {start} on, which model {lineage.model} "
            f"of group {group} has yet to learn, found {log.low} as the first: the others are gone, and "
            f"{unanswered} of them have no prediction yet. To go on without them, set "
            f'worker.accept_gap = ["{partition}@{start}"], and lengthen the retention of {topic}; a new '
            f"worker.group begins a new model"
        )
    gaps = (*lineage.gaps, Gap(start, log.low))
    if len(gaps) > MAX_GAPS:
        raise ConfigurationError(
            f"expected at most {MAX_GAPS} gaps in a model's history, found one more in {topic}-{partition} at "
            f"{start}: use a new worker.group to begin a new model"
        )
    return Jump(lineage_of(settings, topic, partition, lineage.start, gaps), gaps[-1])
