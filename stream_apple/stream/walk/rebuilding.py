"""Makes a partition's model as it was at any moment, by learning again from what is in Kafka.

It begins with the newest snapshot, if that is not later than the moment; else with the first record that the model has
learned, if the log still has it.
"""

from contextlib import closing

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.stream.log.log_scan import LogScan, first_record
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.snapshots.store import StoredModel
from stream_apple.stream.walk.answers import Outputs
from stream_apple.stream.walk.faults import Faults
from stream_apple.stream.walk.moment import Moment
from stream_apple.stream.walk.replay import Replay, StandStill
from stream_apple.stream.walk.sources import Sources


def rebuild(sources: Sources, stored: StoredModel, committed: Committed, moment: Moment) -> PartitionModel:
    """Return the model of a partition as it was at `moment`.

    stored  the committed metadata, and the newest snapshot's model

    ConfigurationError if the model was never at this moment; GapError if needed records are gone, or if the records of
    merges don't lead there.
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
    with closing(LogScan(sources.logs, topic, number, offsets, sources.fetch_records)) as scan:
        for records in scan.batches():
            pass_through(replay.learn(records, outputs))
            outputs.dead_letters.clear()
    replay.finish()
    if stage:
        _stand_at(sources, replay, moment)
    return _checked(replay, moment, faults)


def _stand_at(sources: Sources, replay: Replay, moment: Moment) -> None:
    """Take a model that has learned all records before a boundary to the boundary, or past it."""
    model, topic = replay.model, sources.provenance.topics.examples
    if not Moment.of(model).boundary:
        offsets = range(moment.offset, sources.logs.log_range(topic, model.partition).high)
        record = first_record(sources.logs, topic, model.partition, offsets)
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
    """Have a model pass all its boundaries at once, where nothing looks at it in between."""
    for _ in standing:
        pass
