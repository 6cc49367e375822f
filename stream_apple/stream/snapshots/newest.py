"""Finds the newest snapshot of a model among the messages of the models topic, without a committed offset's pointer."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress

from stream_apple.errors import SnapshotError
from stream_apple.stream.log.log_scan import LogScan
from stream_apple.stream.log.ports import Readers
from stream_apple.stream.positions.lineage import Gap, Lineage, Provenance, SnapshotPointer
from stream_apple.stream.snapshots.codec import read_place, read_stored_manifest
from stream_apple.untrusted import MalformedError, Offset, of_kind

_FEW_LARGE = 8
"""Messages to fetch at once where each may have a megabyte."""


def newest_snapshot(
    logs: Readers,
    provenance: Provenance,
    number: int,
    wanted: str | None = None,
    usable: range = range(sys.maxsize),
    now: Callable[[], float] = time.monotonic,
) -> Generator[None, None, tuple[SnapshotPointer, Lineage | None] | None]:
    """Return where the newest complete snapshot with an offset in `usable` is, and its lineage; None if there is none.

    The lineage is None if it is not one of these settings.

    wanted  fingerprint of the model; None: any

    GapError, BrokerError as of a scan.
    """
    topic, prefix = provenance.topics.models, provenance.snapshot_key(number)
    low, high = logs.log_range(topic, number)
    newest: tuple[SnapshotPointer, Lineage | None] | None = None
    due: tuple[str, int, int, int] | None = None  # the place of the next message, if the snapshot is whole so far
    first = -1
    with closing(LogScan(logs, topic, number, range(low, high), _FEW_LARGE, now=now)) as scan:
        while usable and not scan.done:
            for record in scan.read():
                if not (record.key() or b"").startswith(prefix):
                    continue
                place = model, at, index, of = read_place(record.value())
                if index == 0:
                    first = record.offset()
                elif place != due:
                    due = None
                    continue
                due = model, at, index + 1, of
                if index != of - 1 or at not in usable or wanted not in {None, model}:
                    continue
                with suppress(SnapshotError, MalformedError):
                    manifest = read_stored_manifest(record.value())
                    lineage = provenance.lineage(
                        number,
                        of_kind(Offset, manifest.start),
                        of_kind(tuple[Gap, ...], manifest.gaps),
                        of_kind(tuple[Offset, ...], manifest.skips),
                    )
                    pointer = SnapshotPointer(at, first, record.offset(), manifest.digest)
                    newest = pointer, lineage if lineage.model == model else None
            yield
    return newest
