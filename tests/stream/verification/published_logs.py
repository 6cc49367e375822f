"""What a worker leaves in its topics, in memory, so that it can be damaged and verified."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
from support.records import DECODER, SETTINGS, TOPIC, FakeRecord, dead_letter_headers, stream

from stream_apple.errors import GapError
from stream_apple.stream.log.ports import Committed, LogRange, Record
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage, OffsetMetadata, Provenance, SnapshotPointer, Topics
from stream_apple.stream.snapshots.codec import encode_snapshot
from stream_apple.stream.verification.partition_report import Report
from stream_apple.stream.verification.verifier import Verifier
from stream_apple.stream.walk.sources import Sources

PROVENANCE = Provenance("group", Topics(TOPIC, "predictions", "dead-letters", "models"), {"learner": {"bits": 10}})
OTHERS = PROVENANCE._replace(group="others")
COUNT = 600
PARTITIONS = 3
DEAD_LETTER_PARTITIONS = 2
PARTITION = 2
PREDICTIONS = ("predictions", PARTITION)
LETTERS = ("dead-letters", PARTITION % DEAD_LETTER_PARTITIONS)
INPUT = (TOPIC, PARTITION)
MODELS = ("models", PARTITION)
OTHER = "f" * 16
"""The fingerprint of a model that is not ours."""


class MemoryReader:
    """Delivers a few records at a time, and knows where it stands."""

    def __init__(self, records: Sequence[FakeRecord], offset: int, end: int) -> None:
        self._records = [record for record in records if record.at >= offset]
        self._end = max(end, offset)
        self.position = offset
        self.log_end = self._end

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """At most seven."""
        assert timeout_s > 0
        portion, self._records = self._records[: min(limit, 7)], self._records[min(limit, 7) :]
        self.position = portion[-1].at + 1 if portion else self._end
        return portion

    def close(self) -> None:
        """Nothing is held."""


class MemoryLogs:
    """Logs that are lists of records, whose offsets may have gaps."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], list[FakeRecord]] = {}
        self.low: dict[tuple[str, int], int] = {}
        self.offsets: dict[int, Committed | None] = {}

    def partition_count(self, topic: str) -> int:
        """Of the dead letters there are fewer."""
        return DEAD_LETTER_PARTITIONS if topic == "dead-letters" else PARTITIONS

    def count_now(self) -> int:
        """None is added."""
        return PARTITIONS

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """As stored."""
        return {number: self.offsets.get(number) for number in partitions}

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """No transaction is open."""
        return self.committed_now(partitions)

    def log_range(self, topic: str, partition: int) -> LogRange:
        """The end lies behind the marker of the last transaction."""
        records = self.logs.get((topic, partition), [])
        return LogRange(self.low.get((topic, partition), 0), records[-1].at + 2 if records else 0)

    def reader(self, topic: str, partition: int, offset: int) -> MemoryReader:
        """From `offset` on; it must not lie below what retention has left."""
        low, high = self.log_range(topic, partition)
        if offset < low:
            raise GapError(f"{topic}-{partition}: {offset} is below {low}")
        return MemoryReader(self.logs.get((topic, partition), []), offset, high)

    def append(
        self,
        place: tuple[str, int],
        key: bytes | None,
        value: bytes | None,
        time_ms: int = 0,
        headers: Sequence[tuple[str, Any]] | None = None,
    ) -> int:
        """Add a message behind the last one, now and then with a marker between; its offset."""
        log = self.logs.setdefault(place, [])
        at = log[-1].at + 1 + (len(log) % 50 == 49) if log else 0
        log.append(FakeRecord(place[1], at, value, time_ms, key, headers))
        return at

    def remove_before(self, place: tuple[str, int], offset: int) -> None:
        """As retention does."""
        self.logs[place] = [record for record in self.logs[place] if record.at >= offset]
        self.low[place] = offset


def new_model(partition: int, lineage: Lineage) -> PartitionModel:
    """A model that has learned nothing."""
    return PartitionModel(TOPIC, partition, lineage, SETTINGS, DECODER)


def answer(logs: MemoryLogs, model: PartitionModel, records: Sequence[FakeRecord]) -> None:
    """Learn and publish as the worker does."""
    result = model.process(records)
    number, shared = model.partition, model.partition % DEAD_LETTER_PARTITIONS
    for record, value in zip(result.examples, result.predictions, strict=True):
        logs.append(("predictions", number), record.key(), value, record.timestamp()[1])
    for reject in result.rejects:
        record = reject.record
        headers = dead_letter_headers(reject, TOPIC, model.lineage.model)
        logs.append(("dead-letters", shared), record.key(), record.value(), record.timestamp()[1], headers)


def save(logs: MemoryLogs, model: PartitionModel) -> SnapshotPointer:
    """Write a snapshot as the worker does, among those of another group."""
    snapshot = encode_snapshot(model)
    offsets = []
    for index, message in enumerate(snapshot.messages):
        logs.append(("models", model.partition), OTHERS.snapshot_key(model.partition, index), b"not ours")
        key = PROVENANCE.snapshot_key(model.partition, index)
        offsets.append(logs.append(("models", model.partition), key, message))
    return SnapshotPointer(snapshot.at, offsets[0], offsets[-1], snapshot.digest)


def commit(logs: MemoryLogs, model: PartitionModel, pointer: SnapshotPointer | None) -> None:
    """Commit where the model stands."""
    metadata = OffsetMetadata(model.lineage, pointer)
    logs.offsets[model.partition] = Committed(model.next_offset, metadata.to_text())


def life(partition: int = PARTITION, logs: MemoryLogs | None = None) -> MemoryLogs:
    """What a worker leaves that has learned a partition, with a snapshot in the middle."""
    logs = logs or MemoryLogs()
    records = stream(COUNT, seed=5, partition=partition)
    logs.logs[TOPIC, partition] = records
    model = new_model(partition, PROVENANCE.lineage(partition, 0))
    answer(logs, model, records[: COUNT // 2])
    pointer = save(logs, model)
    answer(logs, model, records[COUNT // 2 :])
    commit(logs, model, pointer)
    return logs


def verify(logs: MemoryLogs, to: int | None = None) -> Report:
    """The report on the partition in question."""
    return Verifier(Sources(logs, PROVENANCE, new_model, 50), lambda *_: None).verify_each([PARTITION], to)[0]


def verify_all(logs: MemoryLogs) -> list[Report]:
    """The reports on all partitions, by one verifier."""
    return Verifier(Sources(logs, PROVENANCE, new_model, 50), lambda *_: None).verify_all()


def changed(logs: MemoryLogs, place: tuple[str, int], index: int, **fields: Any) -> None:
    """Replace parts of a message."""
    logs.logs[place][index] = logs.logs[place][index]._replace(**fields)


def pointer_of(logs: MemoryLogs) -> SnapshotPointer:
    """The newest snapshot's."""
    report = verify(logs)
    assert report.snapshot is not None
    return report.snapshot


def without(logs: MemoryLogs, place: tuple[str, int], index: int) -> None:
    """Take a message out, as if it had never been there."""
    del logs.logs[place][index]


def prediction_with(value: bytes | None, **fields: Any) -> bytes:
    """A prediction message with other fields."""
    return bytes(msgpack.packb({**msgpack.unpackb(value), **fields}))


def damaged_snapshot(logs: MemoryLogs) -> None:
    """One bit of the snapshot's last message has flipped."""
    value = bytearray(logs.logs[MODELS][-1].payload or b"")
    value[len(value) // 2] ^= 1
    changed(logs, MODELS, -1, payload=bytes(value))


def repeated(logs: MemoryLogs, place: tuple[str, int], index: int, behind: int = 1) -> None:
    """Put a copy of a message some places behind it."""
    log = logs.logs[place]
    copies = [*log[: index + behind], log[index], *log[index + behind :]]
    logs.logs[place] = [record._replace(at=at) for at, record in enumerate(copies)]
