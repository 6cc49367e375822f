"""Reads the merges topic of one group: which models were merged when, and with which model each partition went on.

Only the manifests of merged models are kept. The models are read again, one at a time, when they are needed: as all
partitions need the same one, and later the next, the log is read on from there.
"""

from collections import defaultdict
from contextlib import closing
from typing import NamedTuple

from stream_apple.errors import GapError, SnapshotError
from stream_apple.stream.log.log_scan import PATIENCE_S, LogScan
from stream_apple.stream.log.ports import Record
from stream_apple.stream.merging.adoptions import AdoptionRecord, decode_adoption
from stream_apple.stream.merging.merge_log import MergedModel
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import OffsetMetadata, Provenance
from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.merge_history import MergeHistory
from stream_apple.stream.snapshots.merge_messages import Envelope, MergeDecoder, MergeManifest, read_manifest
from stream_apple.stream.snapshots.store import FEW_LARGE, Logs
from stream_apple.stream.snapshots.stored_messages import merge_messages, merged_place
from stream_apple.stream.walk.faults import Fault, Faults, Kind
from stream_apple.untrusted import MalformedError, from_msgpack

_CLOSE = 1_000
"""Reading this many unneeded messages is quicker than connecting anew."""


class FoundAdoption(NamedTuple):
    """Holds an adoption record, and the offset of its message."""

    offset: int
    record: AdoptionRecord


class FoundMerge(NamedTuple):
    """A merged model in the log, without its history; `pointer.first` is -1 if its first message is gone."""

    pointer: MergedPointer
    manifest: MergeManifest


class RecordedMerges:
    """Reads the merges topic, and keeps what it has found there.

    low        offset of its first message when it was last read: earlier ones are gone
    adoptions  partition -> its records, in their order
    merges     merged models, in their order
    """

    def __init__(self, logs: Logs, provenance: Provenance) -> None:
        self.low = 0
        self.adoptions: dict[int, list[FoundAdoption]] = defaultdict(list)
        self.merges: list[FoundMerge] = []
        self.topic = provenance.topics.merges
        self._logs = logs
        self._provenance = provenance
        self._group = provenance.group
        self._next: int | None = None
        self._parts: dict[int, list[int]] = {}  # round -> offsets of the messages of its latest merged model
        self._untold: list[Fault] = []
        self._model: MergedModel | None = None  # that was read last
        self._models: tuple[LogScan, range] | None = None  # the log behind it, and which offsets are left of that

    def close(self) -> None:
        """Close the reader of the merges topic."""
        if self._models is not None:
            self._models[0].close()
            self._models = None

    def read_on(self, patience_s: float = PATIENCE_S) -> None:
        """Read the messages that have come since the last call; BrokerError after `patience_s` without progress.

        An open transaction, whose worker may be dead, stops the progress.
        """
        self.low, end = self._logs.log_range(self.topic, 0)
        start = self.low if self._next is None else max(self._next, self.low)
        with closing(self._scan(start, end, patience_s)) as scan:
            while (record := scan.take()) is not None:
                self._take(record)
                self._next = record.offset() + 1
        self._next = end if self._next is None else max(end, self._next)

    def compare(self, number: int, metadata: OffsetMetadata, faults: Faults) -> None:
        """Report, once, the faults of the log itself, and a newest merged model that is noted but not in the log.

        The note with partition 0's offset names that model; it may be missing only if it is older than the log.
        """
        for fault in self._untold:
            faults.add(fault)
        self._untold.clear()
        pointer = None if metadata.merge is None else metadata.merge.merged
        if pointer is None or pointer.first < self.low or pointer in [each.pointer for each in self.merges]:
            return
        text = f"round {pointer.round}: expected its merged model in messages {pointer.first} to {pointer.last}"
        text += f", as is noted beside partition {number}, found none there"
        faults.add(Fault(Kind.MERGED, self.topic, 0, pointer.first, None, text))

    def find(self, number: int) -> list[FoundMerge]:
        """Return all merged models of this round."""
        return [each for each in self.merges if each.pointer.round == number]

    def model(self, pointer: MergedPointer, like: PartitionModel) -> MergedModel:
        """Return a merged model of models like this one.

        GapError if it is gone from the log, SnapshotError if it is damaged, incomplete or of another round.
        """
        if self._model is None or self._model.pointer != pointer:
            self._model = None  # before there is another
            self._model = self._read_model(pointer, like)
        return self._model

    def _read_model(self, pointer: MergedPointer, like: PartitionModel) -> MergedModel:
        place = merged_place(self._provenance, pointer)
        low, high = self._logs.log_range(self.topic, 0)
        if pointer.first < low:
            raise GapError(f"expected {place}, found {low} as the first message: it is gone")
        if pointer.last >= high:
            raise SnapshotError(f"{place}: expected it, found the log to end at {high}")
        scan = self._scan_from(pointer, high)
        decoder = MergeDecoder(self._group, pointer.round, like.learner.options)
        try:
            merge_messages(self._provenance, pointer, decoder).read_from(scan)
        except (SnapshotError, GapError):
            self.close()
            raise
        self._models = scan, range(pointer.last + 1, self._models[1].stop if self._models else high)
        assert decoder.manifest is not None
        return MergedModel(pointer, decoder.manifest, decoder.model)

    def _scan_from(self, pointer: MergedPointer, end: int) -> LogScan:
        """Return a scan that begins at or before these messages: the present one, if it is at most _CLOSE before."""
        left = range(0) if self._models is None else self._models[1]
        if self._models is None or pointer.first not in left[:_CLOSE] or pointer.last not in left:
            self.close()
            self._models = self._scan(pointer.first, end), range(pointer.first, end)
        return self._models[0]

    def _scan(self, start: int, end: int, patience_s: float = PATIENCE_S) -> LogScan:
        return LogScan(self._logs, self.topic, 0, range(start, end), FEW_LARGE, patience_s=patience_s)

    def _take(self, record: Record) -> None:
        group, _, rest = (record.key() or b"").partition(b"/")
        if group != self._group.encode():
            return  # another group's
        kind, _, name = rest.partition(b"/")
        try:
            if kind == b"adopted":
                adoption = decode_adoption(self._group, record.value())
                self.adoptions[adoption.partition].append(FoundAdoption(record.offset(), adoption))
            else:
                self._add_part(record, int(kind), int(name))
        except (SnapshotError, ValueError) as error:
            self._fault(Kind.UNREADABLE, record.offset(), f"{record.key()!r}: {error}")

    def _add_part(self, record: Record, number: int, index: int) -> None:
        """Take in message `index` of a round's merged model."""
        parts = self._parts.setdefault(number, [])
        if index == 0:
            parts.clear()
        parts.append(record.offset())
        if not _is_last(record.value()):
            return
        manifest = read_manifest(self._group, number, record.value())
        del self._parts[number]
        earlier = self.find(number)
        if earlier:
            where = earlier[0].pointer
            text = f"round {number}: expected one merged model, found it in messages {where.first} to {where.last} too"
            self._fault(Kind.MERGED_TWICE, record.offset(), text)
        whole = len(parts) == index + 1
        if not whole and self.low == 0:
            text = f"round {number}: expected {index + 1} messages of a merged model, found {len(parts)}"
            self._fault(Kind.UNREADABLE, record.offset(), text)
        pointer = MergedPointer(number, parts[0] if whole else -1, record.offset())
        self.merges.append(FoundMerge(pointer, manifest._replace(history=MergeHistory())))

    def _fault(self, kind: Kind, offset: int, text: str) -> None:
        self._untold.append(Fault(kind, self.topic, 0, offset, None, text))


def _is_last(value: bytes | None) -> bool:
    """Whether this is the last message of a merged model; SnapshotError if it is no message of one."""
    try:
        return from_msgpack(Envelope, value).last
    except MalformedError as error:
        raise SnapshotError(f"expected a message of a merged model, found: {error}") from error
