"""Random histories of a group of joiners: whatever happens to them, what is joined is what an offline join gives.

Besides what happens to every group, records arrive as time goes on, and retention removes what no join needs.
"""

import random
from collections.abc import Callable, Mapping

from simulation.cluster import MemoryCluster
from simulation.history import History, Note, silent
from simulation.joining.process import DEAD_LETTERS, GROUP, JOIN_RULE, JoinerProcess
from simulation.log import Message, PartitionLog
from simulation.member_process import Delivery
from stream.joining.two_logs import RULE, SECOND, START, make_logs
from support.oracles.offline_join import Example, Joined, content_of, joined_in_sequence
from support.records import FakeRecord

from stream_apple.stream.joining.position import read_position
from stream_apple.stream.model.dead_letters import dead_letter_origin

MOST_TURNS = 3_000
"""More than any input needs."""


class JoinSchedule(History[JoinerProcess]):
    """One history of joiners."""

    STEPS = 120
    TURNS = (1, 2, 4, 8)
    IDENTITIES = ("joiner-0", "joiner-1", "joiner-2")

    def __init__(self, seed: int, note: Note = silent) -> None:
        draw = random.Random(seed)
        self._partitions = draw.choice([1, 2, 3])
        cluster = MemoryCluster(
            {
                JOIN_RULE.impressions: self._partitions,
                JOIN_RULE.outcomes: self._partitions,
                JOIN_RULE.examples: self._partitions,
                DEAD_LETTERS: draw.choice([1, self._partitions]),
            }
        )
        super().__init__(draw, cluster, GROUP, JOIN_RULE.impressions, note)
        self._now = START / SECOND
        self._coming = self._made_up(seed)
        # What retention has taken is kept here, for the offline join.
        self._gone: dict[tuple[str, int], list[FakeRecord]] = {}

    def _made_up(self, seed: int) -> list[tuple[int, str, int, FakeRecord]]:
        """Time of arrival, topic, partition and record, the first to arrive last."""
        coming = []
        for number in range(self._partitions):
            disorder = self._draw.choice([0, 2, 20])
            logs = make_logs(seed * 10 + number, 40, disorder_ms=disorder * SECOND, heartbeats=False, odd=0.03)
            for topic, log in zip((JOIN_RULE.impressions, JOIN_RULE.outcomes), logs, strict=True):
                arrival = START
                for record in log:
                    if "heartbeat" not in content_of(record.payload):
                        # Of an odd time nothing is known of the arrival but the order.
                        near = START <= record.time_ms <= START + 600 * SECOND
                        arrival = max(arrival, record.time_ms) if near else arrival
                        coming.append((arrival, topic, number, record))
        return sorted(coming, key=lambda each: each[0], reverse=True)

    def _make(self, identity: str, delivery: Delivery, *, clean: bool) -> JoinerProcess:  # noqa: ARG002  joiners have no threads that could be late
        return JoinerProcess(self._cluster, identity, lambda: self._now, delivery=delivery)

    def _more_steps(self) -> Mapping[Callable[[], None], int]:
        return {self._arrive: 20, self._retain: 2}

    def _arrive(self) -> None:
        self._now += self._draw.choice([0.5, 3, 10])
        self._deliver()
        self._note(f"records arrive until {self._now - START / SECOND:.1f} s")

    def _deliver(self) -> None:
        while self._coming and self._coming[-1][0] <= self._now * SECOND:
            _, topic, number, record = self._coming.pop()
            message = Message(record.named, record.payload, record.time_ms)
            self._cluster.log(topic, number).append(message)

    def _retain(self) -> None:
        for number, committed in self._group.offsets.items():
            position = read_position(committed, JOIN_RULE, "")[0]
            self._forget(self._cluster.log(JOIN_RULE.impressions, number), position.impressions)
            self._forget(self._cluster.log(JOIN_RULE.outcomes, number), position.window_from)
        self._note(
            f"retention: the impressions begin at {[log.low for log in self._cluster.logs(JOIN_RULE.impressions)]}"
        )

    def _forget(self, log: PartitionLog, offset: int) -> None:
        gone = [record for record in log.committed() if record.at < offset]
        self._gone.setdefault((log.topic, log.number), []).extend(gone)
        log.delete_before(offset)

    def _complete(self, last: JoinerProcess) -> None:
        ends: dict[int, int] = {}
        for _ in range(MOST_TURNS):
            self._now += 2
            self._deliver()
            last.step()
            assert last.ended is None, f"the last joiner has {last.ended}: {last.error}"
            ends = {number: log.end for number, log in enumerate(self._cluster.logs(JOIN_RULE.impressions))}
            done = {number: each.join.position.impressions for number, each in last.loop.owned.items()}
            if not self._coming and done == ends:
                break
        else:
            raise AssertionError(f"expected all impressions to be joined within {MOST_TURNS} turns, to {ends}")
        last.stop()

    def _check(self, last: JoinerProcess) -> None:
        """Compare what has been joined with what an offline join makes of all that came."""
        assert last.error is None
        self._cluster.transactions.settle()
        refused: dict[tuple[str, int], list[int]] = {}
        for log in self._cluster.logs(DEAD_LETTERS):
            for letter in log.committed():
                origin = dead_letter_origin(letter)
                assert origin is not None
                refused.setdefault((origin.topic, origin.partition), []).append(origin.offset)
        for number in range(self._partitions):
            impressions, outcomes = (
                self._whole(topic, number) for topic in (JOIN_RULE.impressions, JOIN_RULE.outcomes)
            )
            joined = Joined(
                [
                    Example(record.named, content_of(record.payload), record.time_ms)
                    for record in self._cluster.log(JOIN_RULE.examples, number).committed()
                ],
                refused.get((JOIN_RULE.impressions, number), []),
                refused.get((JOIN_RULE.outcomes, number), []),
            )
            assert joined == joined_in_sequence(RULE, impressions, outcomes)

    def _whole(self, topic: str, number: int) -> list[FakeRecord]:
        return [*self._gone.get((topic, number), ()), *self._cluster.log(topic, number).committed()]
