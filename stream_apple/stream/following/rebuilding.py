"""A partition's model as it was at any moment, learned again from what is in Kafka.

From the newest snapshot, if that is not behind the moment; else from the first record that the model has learned, if
the log still has it.
"""

from contextlib import closing
from typing import Protocol

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.stream.following.as_of import Moment
from stream_apple.stream.log.ports import Committed, Reader
from stream_apple.stream.model.partition_model import ModelFactory, PartitionModel
from stream_apple.stream.positions.lineage import OffsetMetadata, Provenance, behind_gap
from stream_apple.stream.snapshots.store import Logs, SnapshotStore, StoredModel
from stream_apple.stream.verification.crossing import Crossing
from stream_apple.stream.verification.faults import Faults
from stream_apple.stream.verification.merges_log import MergesLog
from stream_apple.stream.verification.output_logs import scan_of
from stream_apple.stream.verification.replay import Outputs, Replay, StandStill


class FollowedLogs(Logs, Protocol):
    """Reads the cluster for those who only look, and want to know how far they are behind."""

    def reader(self, topic: str, partition: int, offset: int) -> Reader:
        """Read what is committed from `offset` on."""
        ...


class Sources:
    """Where a group's models are made of: its logs, its snapshots, and how a new model is made.

    fetch_records  at a time
    merges         what the topic of merges holds; None where models are not merged
    """

    def __init__(self, logs: FollowedLogs, provenance: Provenance, new_model: ModelFactory, fetch_records: int) -> None:
        self.logs = logs
        self.provenance = provenance
        self.new_model = new_model
        self.fetch_records = fetch_records
        self.merges = None if provenance.merging is None else MergesLog(logs, provenance)
        self._store = SnapshotStore(logs, provenance, new_model)

    def close(self) -> None:
        """Close the reader of the merges topic."""
        if self.merges is not None:
            self.merges.close()

    def newest(self, number: int, committed: Committed) -> StoredModel:
        """Return what is committed, and the model in its newest snapshot, if there is one; errors as of the store.

        The fault that keeps it from being restored is raised.
        """
        stored = self._store.newest(number, committed)
        if stored.fault is not None:
            raise stored.fault
        metadata, model, _ = stored
        if model is not None and model.rounds is not None and metadata.merge is not None:
            # Whether it stands at a boundary, only the note tells.
            model.rounds.restore(metadata.merge.boundary, model.next_offset)
        return stored

    def from_start(self, number: int, metadata: OffsetMetadata) -> PartitionModel:
        """Return a model that stands before its first record; GapError if that is gone from the log."""
        topic, lineage = self.provenance.topics.examples, metadata.lineage
        low, first = self.logs.log_range(topic, number).low, behind_gap(lineage.start, lineage.gaps)
        if first < low:
            raise GapError(
                f"expected the records of {topic}-{number} from offset {first} on, to learn model {lineage.model} of "
                f"group {self.provenance.group} again, found {low} as the first: the others are gone"
            )
        return self.new_model(number, self.provenance.lineages(number, lineage)[0]).begin()

    def replay(self, model: PartitionModel, metadata: OffsetMetadata, stop: int, faults: Faults) -> Replay:
        """Return how a model goes on to `stop`, as what is committed says; with merging, as is recorded by now."""
        number, crossing = model.partition, None
        if self.merges is not None:
            crossing = Crossing(self.merges, self.provenance, number, metadata, faults, lambda: None)
        model.skips.clear()
        return Replay(model, metadata, self.provenance.lineages(number, metadata.lineage), stop, crossing)


def rebuild(sources: Sources, stored: StoredModel, committed: Committed, moment: Moment) -> PartitionModel:
    """Return the model of a partition as it was at `moment`.

    stored  what is committed, and the newest snapshot

    ConfigurationError if it has never been there, GapError if records are gone that it takes, or if what is recorded of
    merges does not lead there.
    """
    metadata, model = stored.metadata, stored.model
    topic, (number, offset, stage) = sources.provenance.topics.examples, moment
    if not metadata.lineage.start <= offset <= committed.offset:
        raise ConfigurationError(
            f"offset: expected one from {metadata.lineage.start}, where the model of {topic}-{number} began, to the "
            f"committed {committed.offset}, found {offset}"
        )
    if stage and sources.merges is None:
        raise ConfigurationError(f"expected partition@offset, the models being not merged, found {moment}")
    if model is None or Moment.of(model).order > moment.order:
        try:
            model = sources.from_start(number, metadata)
        except GapError as error:
            raise GapError(f"{error}, and the newest snapshot is behind offset {offset}") from error
    if sources.merges is not None:
        sources.merges.read_on()
    faults = Faults()
    replay, outputs = sources.replay(model, metadata, offset, faults), Outputs([], [])
    model.publish_from = committed.offset  # nothing is published
    if replay.model.held is not None and moment != Moment.of(replay.model):
        pass_through(replay.stand())
    offsets = range(replay.model.next_offset, offset)
    with closing(scan_of(sources.logs, topic, number, offsets, sources.fetch_records)) as scan:
        for records in scan.batches():
            pass_through(replay.learn(records, outputs))
            outputs.dead_letters.clear()
    replay.finish()
    if stage:
        _stand_at(sources, replay, moment)
    return _checked(replay, moment, faults)


def _stand_at(sources: Sources, replay: Replay, moment: Moment) -> None:
    """Take a model that has learned all before a boundary to the boundary, or behind it."""
    model, topic = replay.model, sources.provenance.topics.examples
    if not Moment.of(model).boundary:
        offsets = range(moment.offset, sources.logs.log_range(topic, model.partition).high)
        with closing(scan_of(sources.logs, topic, model.partition, offsets, 1)) as scan:
            record = scan.take()
        if record is not None and model.stops_before(record):
            model.process([record])
    if moment.boundary == "passed" and model.held is not None:
        pass_through(replay.stand())


def _checked(replay: Replay, moment: Moment, faults: Faults) -> PartitionModel:
    if replay.unproved is not None or faults.counts.total():
        why = replay.unproved.why if replay.unproved is not None else faults.first[0].text
        raise GapError(f"expected the model to be learned again up to {moment}, found: {why}")
    reached = Moment.of(replay.model)
    if reached.boundary != moment.boundary or reached.offset > moment.offset:
        raise ConfigurationError(f"expected a model at {moment}, found that it has never stood there: {reached}")
    return replay.model


def pass_through(standing: StandStill) -> None:
    """Go on from each boundary at once, there being nobody who looks at the model there."""
    for _ in standing:
        pass
