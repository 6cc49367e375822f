"""Models with a past, and their snapshots."""

from dataclasses import replace

from support.records import DECODER, PLAIN_OPTIONS, SETTINGS, TOPIC, stream

from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel
from stream_apple.stream.positions.lineage import Lineage, Provenance, SnapshotPointer, Topics
from stream_apple.stream.snapshots.codec import Snapshot

PAST, FUTURE = 400, 100
"""Records that a model has learned when its snapshot is taken, and some that follow."""
PROVENANCE = Provenance("group", Topics(TOPIC, "predictions", "dead-letters", "models"), {"made": "up"})
LINEAGE = PROVENANCE.lineage(0, 0)
RECORDS = stream(PAST + FUTURE, seed=3, partition=0, bad_share=0.1)


PLAIN = SETTINGS._replace(options=replace(SETTINGS.options, **PLAIN_OPTIONS))
"""Settings of models with one predictor."""


def empty(lineage: Lineage = LINEAGE, settings: ModelSettings = SETTINGS) -> PartitionModel:
    """A model that has learned nothing."""
    return PartitionModel(TOPIC, 0, lineage, settings, DECODER)


def grown() -> PartitionModel:
    """A model that has learned the past, with several epochs and dead letters in it."""
    model = empty()
    model.process(RECORDS[:PAST])
    assert model.ended.epoch > 0
    assert model.rejects.recent.any()
    return model


def pointer(snapshot: Snapshot) -> SnapshotPointer:
    """As if it were all that the models topic holds."""
    return SnapshotPointer(snapshot.at, 0, len(snapshot.messages) - 1, snapshot.digest)
