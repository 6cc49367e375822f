"""Finds the newest snapshot of a model among the messages of the models topic, without a committed offset's pointer."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress

from stream_apple.errors import SnapshotError
from stream_apple.stream.log.log_scan import LogScan
from stream_apple.stream.log.ports import Readers
from stream_apple.stream.positions.lineage import Gap, Lineage, Provenance, SnapshotPointer
from stream_apple.stream.snapshots.codec import MessagePlace, read_place, read_stored_manifest
from stream_apple.untrusted import MalformedError, Offset, of_kind

_FEW_LARGE = 8
"""Messages to fetch at once where each may have a megabyte."""


def newest_snapshot(
    logs: Readers,
    provenance: Provenance,
    number: int,
    lineage: Lineage | None = None,
    usable: range = range(sys.maxsize),
    now: Callable[[], float] = time.monotonic,
) -> Generator[None, None, tuple[SnapshotPointer, Lineage] | None]:
    """Return where the newest complete snapshot with an offset in `usable` is, and its lineage; None if there is none.

    lineage  of the snapshot; None: any lineage of these settings, as its manifest says

    References to merged models are passed over: they hold no table. GapError, BrokerError as of a scan.
    """
    topic, prefix = provenance.topics.models, provenance.snapshot_key(number)
    low, high = logs.log_range(topic, number)
    newest: tuple[SnapshotPointer, Lineage] | None = None
    before: MessagePlace | None = None  # that of the message before, if the snapshot is whole up to there
    first = -1
    with closing(LogScan(logs, topic, number, range(low, high), _FEW_LARGE, now=now)) as scan:
        while usable and not scan.done:
            for record in scan.read():
                if not (record.key() or b"").startswith(prefix):
                    continue
                place = read_place(record.value())
                if place is not None and place.number == 0:
                    first = record.offset()
                elif place is None or before is None or place != before._replace(number=before.number + 1):
                    before = None
                    continue
                before = place
                if place.number < place.of - 1 or place.of == 1:
                    continue
                if place.at not in usable or (newest is not None and place.at < newest[0].at):
                    continue
                with suppress(SnapshotError, MalformedError):
                    manifest = read_stored_manifest(record.value())
                    gaps = of_kind(tuple[Gap, ...], manifest.gaps)
                    found = lineage or provenance.lineage(number, of_kind(Offset, manifest.start), gaps)
                    if place.model == found.model:
                        newest = SnapshotPointer(place.at, first, record.offset(), manifest.digest), found
            yield
    return newest
