"""Finds the newest snapshot of a model among the messages of the models topic, without a committed offset's pointer."""

import time
from collections.abc import Callable, Generator
from contextlib import closing

from stream_apple.errors import SnapshotError
from stream_apple.stream.log.log_scan import LogScan
from stream_apple.stream.log.ports import Readers
from stream_apple.stream.positions.lineage import Lineage, Provenance, SnapshotPointer
from stream_apple.stream.snapshots.codec import MessagePlace, read_place, read_stored_manifest

_FEW_LARGE = 8
"""Messages to fetch at once where each may have a megabyte."""


def newest_snapshot(
    logs: Readers,
    provenance: Provenance,
    number: int,
    lineage: Lineage,
    usable: range,
    now: Callable[[], float] = time.monotonic,
) -> Generator[None, None, SnapshotPointer | None]:
    """Return where the newest complete snapshot of this lineage with an offset in `usable` is; None if there is none.

    References to merged models are passed over: they hold no table. GapError, BrokerError as of a scan.
    """
    topic, prefix = provenance.topics.models, provenance.snapshot_key(number)
    low, high = logs.log_range(topic, number)
    newest: SnapshotPointer | None = None
    before: MessagePlace | None = None  # that of the message before, if the snapshot is whole up to there
    first = -1
    with closing(LogScan(logs, topic, number, range(low, high), _FEW_LARGE, now=now)) as scan:
        while usable and not scan.done:
            for record in scan.read():
                if not (record.key() or b"").startswith(prefix):
                    continue
                place = read_place(record.value())
                if place is not None and place.index == 0:
                    first = record.offset()
                elif place is None or before is None or place != before._replace(index=before.index + 1):
                    before = None
                    continue
                before = place
                if place.index < place.of - 1 or place.of == 1:
                    continue
                if place.model == lineage.model and place.at in usable and (newest is None or place.at >= newest.at):
                    newest = _pointer(place.at, first, record.offset(), record.value()) or newest
            yield
    return newest


def _pointer(at: int, first: int, last: int, manifest: bytes | None) -> SnapshotPointer | None:
    try:
        return SnapshotPointer(at, first, last, read_stored_manifest(manifest).digest)
    except SnapshotError:
        return None
