"""Models with a past, and the golden snapshots that later versions must be able to read.

python tests/support/snapshots.py      writes the golden snapshot of the present format; done once for each format
"""

import sys
from dataclasses import replace
from pathlib import Path

import msgpack

DATA = Path(__file__).resolve().parent.parent / "data"
sys.path.insert(0, str(DATA.parent))

from support.records import DECODER, PLAIN_OPTIONS, SETTINGS, TOPIC, stream  # noqa: E402  this file is a program, too

from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel  # noqa: E402
from stream_apple.stream.positions.lineage import Lineage, Provenance, SnapshotPointer, Topics  # noqa: E402
from stream_apple.stream.snapshots.codec import Snapshot, encode_snapshot  # noqa: E402
from stream_apple.stream.snapshots.versions import VERSION  # noqa: E402

PAST, FUTURE = 400, 100
"""Records that a model has learned when its snapshot is taken, and some that follow."""
PROVENANCE = Provenance("group", Topics(TOPIC, "predictions", "dead-letters", "models"), {"made": "up"})
LINEAGE = PROVENANCE.lineage(0, 0)
RECORDS = stream(PAST + FUTURE, seed=3, partition=0, bad_share=0.1)


PLAIN = SETTINGS._replace(options=replace(SETTINGS.options, **PLAIN_OPTIONS))
"""Of models with one predictor, which is all that the first format knew."""


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


def golden(version: int) -> Path:
    """Where the golden snapshot of a format is: a map of digest, messages, records that follow, their predictions."""
    return DATA / f"snapshot_v{version}.msgpack"


if __name__ == "__main__":
    path = golden(VERSION)
    if path.exists():
        sys.exit(f"{path} exists: a golden snapshot is never changed; a new format has a new number")
    model = grown()
    snapshot = encode_snapshot(model)
    following = RECORDS[PAST:]
    path.write_bytes(
        msgpack.packb(
            {
                "digest": snapshot.digest,
                "messages": snapshot.messages,
                "records": [[record.at, record.payload, record.time_ms] for record in following],
                "predictions": model.process(following).predictions,
            }
        )
    )
