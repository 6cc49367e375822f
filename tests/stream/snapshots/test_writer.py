"""When snapshots are put off: transactions with a snapshot that fail again and again must not stop the others."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from structlog.testing import capture_logs
from support.clock import Clock

from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import ANSWERING
from stream_apple.stream.snapshots.codec import Snapshot
from stream_apple.stream.snapshots.writer import SnapshotWriter

INTERVAL_S = 10.0


class AcceptingBroker:
    """Has every message as soon as it is sent."""

    def send(self, *_: object, on_written: Callable[[int], None]) -> None:
        """Take a message."""
        on_written(7)


class NullRecorder:
    """Measures nothing."""

    def saved(self, partition: Partition, size: int, seconds: float) -> None:
        """Ignore it."""

    def restored(self, seconds: float) -> None:
        """Ignore it."""


def _writer(clock: Clock[float]) -> SnapshotWriter:
    place: Any = SimpleNamespace(topics=SimpleNamespace(models="models"), snapshot_key=lambda *_: b"key")
    broker: Any = AcceptingBroker()
    return SnapshotWriter(broker, place, INTERVAL_S, NullRecorder(), clock)


class FakePartition(SimpleNamespace):
    """What the writer looks at of a partition."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def _partition() -> Any:
    return FakePartition(
        number=0, state=next(iter(ANSWERING)), written=None, unsaved=9, jumped=False, unsaved_since=0.0,
        epoch_ended=False,
    )  # fmt: skip


def _save(writer: SnapshotWriter, clock: Clock[float]) -> float:
    """Wait until a snapshot of a new partition is due, and send it; return how many seconds that took."""
    start, partition = clock.now, _partition()
    partition.unsaved_since = start
    while writer.due([partition]) is None:
        clock.now += 0.5
    writer.begin(partition, Snapshot(9, "digest", [b"message"]))
    assert writer.send_on()
    return clock.now - start


def test_snapshots_whose_transactions_fail_are_put_off_longer_and_longer() -> None:
    """One failure changes nothing; each further one doubles the time, up to a bound, and says so."""
    clock = Clock(100.0)
    writer, waits = _writer(clock), []
    with capture_logs() as logged:
        for _ in range(10):
            waits.append(_save(writer, clock) / INTERVAL_S)
            writer.drop()
    assert [round(wait) for wait in waits] == [1, 1, 2, 4, 8, 16, 32, 64, 64, 64]
    told = [event for event in logged if event["event"] == "snapshot_postponed"]
    assert [event["seconds"] / INTERVAL_S for event in told] == [2, 4, 8, 16, 32, 64, 64, 64, 64]
    assert all(event["bytes"] == len(b"message") for event in told)


def test_a_snapshot_that_is_committed_ends_the_delay() -> None:
    """The next ones come after the interval again; commits without a snapshot change nothing."""
    clock = Clock(100.0)
    writer = _writer(clock)
    for _ in range(3):
        _save(writer, clock)
        writer.drop()
        writer.committed()
    assert round(_save(writer, clock) / INTERVAL_S) == 4
    writer.committed()
    assert round(_save(writer, clock) / INTERVAL_S) == 1
    writer.drop()
    assert round(_save(writer, clock) / INTERVAL_S) == 1


def test_aborts_without_a_snapshot_put_off_nothing() -> None:
    """They say nothing about snapshots."""
    clock = Clock(100.0)
    writer = _writer(clock)
    for _ in range(9):
        writer.drop()
    assert round(_save(writer, clock) / INTERVAL_S) == 1
