"""One partition that is joined: the state machine, and the readers of the two logs that drive it."""

from stream_apple.errors import GapError
from stream_apple.stream.joining.messages import read_impressions, read_outcomes
from stream_apple.stream.joining.partition_join import Joined, PartitionJoin
from stream_apple.stream.joining.position import JoinPosition
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.log.ports import AbortableError, Broker, Reader, Record
from stream_apple.stream.partitions.partition import State


class JoinedPartition:
    """Reads both logs of one partition, no further than the join has use for.

    join       the state machine
    committed  its position as of the last commit, None before the first
    told       whether it has been said that it joins what comes
    stands     whether it has been said that it stands still, being full
    """

    def __init__(self, broker: Broker, rule: JoinRule, number: int, position: JoinPosition) -> None:
        self.number = number
        self.join = PartitionJoin(rule, position)
        self.committed: JoinPosition | None = None
        self.told = self.stands = False
        self._rule = rule
        self._impressions = broker.reader(rule.impressions, number, position.impressions)
        self._outcomes = broker.reader(rule.outcomes, number, position.held_from)

    @property
    def state(self) -> State:
        """Return RESTORING while held outcomes are read again, then LIVE."""
        return State.RESTORING if self.join.restoring else State.LIVE

    @property
    def backlog(self) -> int:
        """Return how many offsets of impressions are in the log and not joined, those that wait included.

        As of when the log was last read.
        """
        return max(self._impressions.log_end - self.join.position.impressions, 0)

    def step(self, most: int) -> Joined:
        """Read on, and decide what can be decided, in at most `most` steps.

        AbortableError if what comes next is gone from a log: where to go on is to be found anew.
        """
        join = self.join
        if join.waiting_impressions < most and not join.restoring:
            join.offer_impressions(read_impressions(_fetched(self._impressions, most), self._rule.max_bytes))
        if join.waiting_outcomes < most and not join.full:
            join.offer_outcomes(read_outcomes(_fetched(self._outcomes, most), self._rule.max_bytes))
        return join.advance(most)

    def close(self) -> None:
        """Close the readers."""
        self._impressions.close()
        self._outcomes.close()


def _fetched(reader: Reader, most: int) -> "list[Record]":
    try:
        return list(reader.fetch(most, 0.0))
    except GapError as error:
        raise AbortableError(str(error)) from error
