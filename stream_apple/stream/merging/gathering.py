"""Reading the contributions to a round, a little in each iteration of the loop, in ascending partition number.

What is read stays compressed: each message is decoded once, for the digest, and again when models are merged.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stream_apple.errors import BrokerError, GapError, SnapshotError
from stream_apple.learners.merging_port import ReadableModel
from stream_apple.learners.systems import merging_of
from stream_apple.stream.log.ports import Reader
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.merging.open_rounds import ClosedRound
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage, SnapshotPointer
from stream_apple.stream.snapshots.codec import SnapshotDecoder
from stream_apple.stream.snapshots.compressed_model import CompressedModel
from stream_apple.stream.snapshots.merge_messages import RosterEntry
from stream_apple.stream.snapshots.stored_messages import MessageReading, snapshot_messages

SILENCE_S = 10.0
"""Seconds without a message after which a contribution counts as displaced by a newer snapshot: it is committed."""
_AHEAD = 8  # contributions that are being fetched while one is read


class DisplacedError(Exception):
    """A contribution can't be read any more. The leader catches this itself."""

    def __init__(self, entry: RosterEntry, why: str) -> None:
        super().__init__(why)
        self.entry = entry


class _Reading(NamedTuple):
    """Holds a contribution that is being read."""

    entry: RosterEntry
    model: PartitionModel
    kept: CompressedModel
    snapshot: MessageReading[SnapshotDecoder]

    def complete(self) -> ReadableModel:
        """Return what has been read, when all has come."""
        part = merging_of(self.kept.options).mergeable_of(self.model.learner)
        self.kept.finish({name: array.copy() for name, array in part.sums.items()})
        return self.kept


class Gathering:
    """Reads the models that a closed round is merged of.

    lineages  partition -> lineage of its contribution

    began   when the round was closed, in seconds of the clock
    bytes   read so far
    """

    def __init__(self, context: MergingContext, closed: ClosedRound, lineages: Mapping[int, Lineage]) -> None:
        self.closed = closed
        self.began = context.now()
        self.bytes = 0
        self._broker = context.broker
        self._provenance = context.provenance
        self._new_model = context.new_model
        self._lineages = lineages
        self._now = context.now
        self._found: list[ReadableModel] = []
        self._logs = dict[int, Reader]()
        self._current: _Reading | None = None

    def read_on(self, until: float) -> Sequence[ReadableModel] | None:
        """Read on, until that time at most; return all models in the roster's order, or None if some are to come.

        DisplacedError if a contribution can't be read any more.
        """
        in_time, roster = True, self.closed.roster
        while len(self._found) < len(roster):
            if not in_time:
                return None
            left = roster[len(self._found) :]
            self._open(left)
            current = self._current = self._current or self._begin(left[0])
            try:
                if not current.snapshot.read_on(until):
                    return None
                self._found.append(current.complete())
            except (SnapshotError, GapError, BrokerError) as error:
                raise DisplacedError(current.entry, str(error)) from error
            self.bytes += current.snapshot.bytes
            self._logs.pop(current.entry.partition).close()
            self._current = None
            in_time = self._now() < until
        return self._found

    def close(self) -> None:
        """Close all readers that are open."""
        while self._logs:
            self._logs.popitem()[1].close()

    def _open(self, left: Sequence[RosterEntry]) -> None:
        for entry in left[:_AHEAD]:
            if entry.partition not in self._logs:
                topic = self._provenance.topics.models
                self._logs[entry.partition] = self._broker.reader(topic, entry.partition, entry.first)

    def _begin(self, entry: RosterEntry) -> _Reading:
        """Begin to read a contribution, whose log is open."""
        model = self._new_model(entry.partition, self._lineages[entry.partition])
        kept = CompressedModel(model.learner.options, model.learner.state.rows)
        messages = snapshot_messages(self._provenance, model, SnapshotPointer(*entry[1:]), kept)
        log = self._logs[entry.partition]
        return _Reading(entry, model, kept, MessageReading(log, messages, self._now, SILENCE_S))
