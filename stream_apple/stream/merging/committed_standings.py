"""Where all partitions of a group stand, by the notes with their committed offsets."""

from stream_apple.stream.log.ports import Committed
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.merging.open_rounds import ClosedRound, Standing
from stream_apple.stream.positions.lineage import Lineage

ENDS_S = 1.0
"""Seconds between two times that the ends of logs are asked for."""
_ENDS = 8  # logs whose ends are asked for at a time: each is a request


class CommittedStandings:
    """Knows where all partitions of the group stand, whichever workers own them.

    partitions  how many there are; 0 before the broker has been asked
    """

    def __init__(self, context: MergingContext) -> None:
        self._broker = context.broker
        self._provenance = context.provenance
        self._committed: dict[int, Committed] = {}
        self._lineages: dict[int, Lineage] = {}
        self._standings: dict[int, Standing] = {}
        self._now = context.now
        self._next_ends = context.now()
        self._turn = 0
        self.partitions = 0

    def count(self) -> None:
        """Ask the broker how many partitions there are."""
        self.partitions = self._broker.partition_count(self._provenance.topics.examples)

    def look_at_ends(self) -> None:
        """Ask for the ends of the next few logs in turn, if it was last done at least ENDS_S ago."""
        if self._now() < self._next_ends:
            return
        self._next_ends = self._now() + ENDS_S
        for _ in range(min(_ENDS, self.partitions)):
            number = self._turn = (self._turn + 1) % self.partitions
            end = self._broker.log_range(self._provenance.topics.examples, number).high
            self._standings[number] = self._standing(number)._replace(end=end)

    def look(self) -> list[Standing]:
        """Return where each partition stands, in their order."""
        if not self.partitions:
            self.count()
        for number, committed in self._broker.committed_now(range(self.partitions)).items():
            # Most have not moved since the last look.
            if committed is not None and committed != self._committed.get(number):
                self._read(number, committed)
        return [self._standing(number) for number in range(self.partitions)]

    def _standing(self, number: int) -> Standing:
        return self._standings.get(number, Standing())

    def lineages(self, closed: ClosedRound) -> dict[int, Lineage]:
        """Return the lineage of each contribution, by partition."""
        return {
            entry.partition: self._provenance.lineage_at(entry.partition, self._lineages[entry.partition], entry.at)
            for entry in closed.roster
        }

    def _read(self, number: int, committed: Committed) -> None:
        before = self._committed.get(number)
        if before is not None and before.metadata == committed.metadata:
            # Only the offset has changed. That is the usual case, and it occurs twice a second for each partition.
            self._standings[number] = self._standings[number]._replace(offset=committed.offset)
            self._committed[number] = committed
            return
        metadata = self._provenance.read_metadata(number, committed)
        boundary = None if metadata.merge is None else metadata.merge.boundary
        end = self._standing(number).end
        self._standings[number] = Standing(committed.offset, end, boundary, metadata.snapshot)
        self._lineages[number] = metadata.lineage
        self._committed[number] = committed
