"""Models with a past, and the golden snapshots that later versions must be able to read.

python tests/runtime/snapshots.py      writes the golden snapshot of the present format; done once for each format
"""

import sys
from pathlib import Path

import msgpack

DATA = Path(__file__).resolve().parent.parent / "data"
sys.path.insert(0, str(DATA.parent))

from runtime.records import DECODER, SETTINGS, TOPIC, stream  # noqa: E402  this file is a program, too

from stream_apple.runtime.formats import VERSION  # noqa: E402
from stream_apple.runtime.lineage import Lineage, Pointer, lineage_of  # noqa: E402
from stream_apple.runtime.snapshot import Snapshot, encode  # noqa: E402
from stream_apple.runtime.step import PartitionModel  # noqa: E402

PAST, FUTURE = 400, 100
"""Records that a model has learned when its snapshot is taken, and some that follow."""
LINEAGE = lineage_of({"made": "up"}, TOPIC, 0, 0)
RECORDS = stream(PAST + FUTURE, seed=3, partition=0, bad_share=0.1)


def empty(lineage: Lineage = LINEAGE) -> PartitionModel:
    """A model that has learned nothing."""
    return PartitionModel(TOPIC, 0, lineage, SETTINGS, DECODER)


def grown() -> PartitionModel:
    """A model that has learned the past, with several epochs and dead letters in it."""
    model = empty()
    model.process(RECORDS[:PAST])
    assert model.ended_epoch > 0
    assert model.watch.recent.any()
    return model


def pointer(snapshot: Snapshot) -> Pointer:
    """As if it were all that the models topic holds."""
    return Pointer(snapshot.at, 0, len(snapshot.messages) - 1, snapshot.digest)


def golden(version: int) -> Path:
    """Where the golden snapshot of a format is: a map of digest, messages, records that follow, their predictions."""
    return DATA / f"snapshot_v{version}.msgpack"


if __name__ == "__main__":
    path = golden(VERSION)
    if path.exists():
        sys.exit(f"{path} exists: a golden snapshot is never changed; a new format has a new number")
    model = grown()
    snapshot = encode(model)
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
