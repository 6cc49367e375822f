"""One partition that is joined: its state machine, and the readers of the two logs."""

from stream_apple.stream.joining.mapped_messages import JoinInput
from stream_apple.stream.joining.partition_join import Joined, PartitionJoin
from stream_apple.stream.joining.position import JoinPosition
from stream_apple.stream.joining.readable_log import ReadableLog
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.joining.starting_point import JoinLogs
from stream_apple.stream.log.ports import Broker
from stream_apple.stream.partitions.schema_gate import SchemaGate
from stream_apple.stream.partitions.state import State


class JoinedPartition:
    """Reads both logs of one partition, only as far as the join needs.

    join         the state machine
    committed    its position as of the last commit, None before the first
    live_logged  whether it was logged that it joins new records
    full_logged  whether it was logged that it stands still, as its memory is full
    """

    def __init__(
        self,
        broker: Broker,
        rule: JoinRule,
        records: JoinInput,
        number: int,
        position: JoinPosition,
        logs: JoinLogs,
    ) -> None:
        self.number = number
        self._logs = logs
        self.join = PartitionJoin(rule, position)
        self.committed: JoinPosition | None = None
        self.live_logged = self.full_logged = False
        self._records = records
        self._impressions, self._outcomes = (
            ReadableLog(broker.reader(topic, number, start), SchemaGate(number, records.schemas))
            for topic, start in ((rule.impressions, position.impressions), (rule.outcomes, position.window_from))
        )

    @property
    def state(self) -> State:
        """Return RESTORING while outcomes of the window are read again, then LIVE."""
        return State.RESTORING if self.join.restoring else State.LIVE

    @property
    def backlog(self) -> int:
        """Return how many offsets of impressions are in the log and not joined, as of when it was last read.

        Impressions that wait for outcomes are among them.
        """
        return max(self._impressions.log_end - self.join.position.impressions, 0)

    @property
    def schema_wait_s(self) -> float:
        """Return for how many seconds one of the logs has been waiting for a schema."""
        return max(self._impressions.gate.awaited_s, self._outcomes.gate.awaited_s)

    def step(self, most: int) -> Joined:
        """Read on, and take in at most `most` records; return the results.

        AbortableError if the next record is gone from a log, so that the starting point must be found anew.
        """
        join = self.join
        if join.wants_impressions(most):
            some = self._records.impressions(self._impressions.fetch(most))
            join.offer_impressions(some, self._impressions.position, self._impressions.log_end)
        if join.wants_outcomes(most):
            join.offer_outcomes(self._records.outcomes(self._outcomes.fetch(most), self._logs))
        return join.advance(most)

    def close(self) -> None:
        """Close the readers."""
        self._impressions.close()
        self._outcomes.close()
