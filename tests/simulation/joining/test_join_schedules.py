"""The joiner's loop on the broker in memory: whatever happens to joiners, what is joined is what an offline join gives.

At every step one of these happens: a joiner takes a turn, is started, killed, asked to stop, or made to fail at one of
its next calls; falls asleep and wakes up as a zombie; its session ends; a transaction times out; records arrive and
time goes on; retention removes what no join needs. Afterwards one clean joiner finishes.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from simulation.cluster import MemoryCluster
from simulation.faults import Fault, Kind, When
from simulation.joining.process import GROUP, JOIN_RULE, OUTPUTS, JoinerProcess
from simulation.log import Message, PartitionLog
from simulation.process import End
from stream.joining.two_logs import RULE, SECOND, START, make_logs
from support.oracles.offline_join import Example, Joined, content_of, joined_in_sequence
from support.records import FakeRecord

from stream_apple.stream.joining.position import read_position
from stream_apple.stream.model.dead_letters import dead_letter_origin

STEPS = 120
SCHEDULES = 100
LONG_SCHEDULES = 5_000
MOST_TURNS = 3_000
IDENTITIES = ["joiner-0", "joiner-1", "joiner-2"]


class JoinSchedule:
    """One history, a function of its seed.

    processes  all that were ever started, in their order
    """

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._partitions = self._draw.choice([1, 2, 3])
        self._cluster = MemoryCluster(
            {
                JOIN_RULE.impressions: self._partitions,
                JOIN_RULE.outcomes: self._partitions,
                OUTPUTS.examples: self._partitions,
                OUTPUTS.dead_letters: self._draw.choice([1, self._partitions]),
            }
        )
        late = random.Random(self._draw.random())
        self._cluster.transactions.lags = lambda: late.random() < 0.3
        self._now = START / SECOND
        self._coming = self._made_up(seed)
        # What retention has taken is kept here, for the offline join.
        self._gone: dict[tuple[str, int], list[FakeRecord]] = {}
        self._living: list[JoinerProcess] = []
        self._asleep: list[JoinerProcess] = []
        self.processes: list[JoinerProcess] = []

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

    def run(self) -> None:
        """All of it; AssertionError if anything is not as an offline join has it."""
        steps: dict[Callable[[], None], int] = {
            self._turn: 60,
            self._start: 6,
            self._kill: 2,
            self._stop: 2,
            self._fail: 6,
            self._sleep: 3,
            self._wake: 4,
            self._expire: 2,
            self._time_out: 1,
            self._settle: 4,
            self._arrive: 20,
            self._retain: 2,
        }
        for step in self._draw.choices(list(steps), list(steps.values()), k=STEPS):
            step()
            self._bury()
        self._finish()

    def _turn(self) -> None:
        awake = [process for process in self._living if process not in self._asleep]
        if not awake:
            self._start()
            return
        process = self._draw.choice(awake)
        for _ in range(self._draw.choice([1, 2, 4, 8])):
            if process.ended is None:
                process.step()

    def _start(self) -> None:
        identity = self._draw.choice(IDENTITIES)
        eager, delivery = self._draw.choice([0.0, 0.5, 1.0]), random.Random(self._draw.random())
        self._add(identity, lambda waiting: sum(delivery.random() < eager for _ in range(waiting)))

    def _add(self, identity: str, delivery: Callable[[int], int] = lambda waiting: waiting) -> JoinerProcess:
        process = JoinerProcess(self._cluster, identity, lambda: self._now, delivery=delivery)
        self.processes.append(process)
        self._living.append(process)
        return process

    def _kill(self) -> None:
        self._one(JoinerProcess.kill)

    def _stop(self) -> None:
        self._one(lambda process: None if process in self._asleep else process.stop())

    def _fail(self) -> None:
        kind = self._draw.choice([Kind.CRASH, Kind.ABORTABLE, Kind.ABORTABLE, Kind.BROKER])
        when, later = self._draw.choice(list(When)), self._draw.randint(0, 15)
        self._one(lambda process: process.broker.order(Fault(len(process.broker.calls) + later, kind, when)))

    def _sleep(self) -> None:
        self._one(self._asleep.append)

    def _wake(self) -> None:
        self._asleep.clear()

    def _expire(self) -> None:
        group = self._cluster.group(GROUP, JOIN_RULE.impressions)
        if group.members:
            group.expire(self._draw.choice(group.members))

    def _time_out(self) -> None:
        self._cluster.time_out_transactions()

    def _settle(self) -> None:
        self._cluster.transactions.settle()

    def _arrive(self) -> None:
        self._now += self._draw.choice([0.5, 3, 10])
        self._deliver()

    def _deliver(self) -> None:
        while self._coming and self._coming[-1][0] <= self._now * SECOND:
            _, topic, number, record = self._coming.pop()
            message = Message(record.named, record.payload, record.time_ms)
            self._cluster.log(topic, number).append(message)

    def _retain(self) -> None:
        offsets = self._cluster.group(GROUP, JOIN_RULE.impressions).offsets
        for number, committed in offsets.items():
            position = read_position(committed, JOIN_RULE.outcomes, "").position
            self._forget(self._cluster.log(JOIN_RULE.impressions, number), position.impressions)
            self._forget(self._cluster.log(JOIN_RULE.outcomes, number), position.held_from)

    def _forget(self, log: PartitionLog, offset: int) -> None:
        gone = [record for record in log.committed() if record.at < offset]
        self._gone.setdefault((log.topic, log.number), []).extend(gone)
        log.delete_before(offset)

    def _one(self, effect: Callable[[JoinerProcess], object]) -> None:
        if self._living:
            effect(self._draw.choice(self._living))

    def _bury(self) -> None:
        for process in [process for process in self._living if process.ended is not None]:
            assert not process.unprovoked, f"left without a reason: {process.error!r}"
            self._living.remove(process)
            if process in self._asleep:
                self._asleep.remove(process)

    def _finish(self) -> None:
        group = self._cluster.group(GROUP, JOIN_RULE.impressions)
        for instance in group.members:
            group.expire(instance)
        self._cluster.time_out_transactions()
        last = self._add(self._draw.choice(IDENTITIES))
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
        # Zombies wake up when all is over, and change nothing.
        for process in self._living:
            for _ in range(3):
                if process.ended is None:
                    process.step()
        self._check()

    def _check(self) -> None:
        self._cluster.transactions.settle()
        refused: dict[tuple[str, int], list[int]] = {}
        for log in self._cluster.logs(OUTPUTS.dead_letters):
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
                    for record in self._cluster.log(OUTPUTS.examples, number).committed()
                ],
                refused.get((JOIN_RULE.impressions, number), []),
                refused.get((JOIN_RULE.outcomes, number), []),
            )
            assert joined == joined_in_sequence(RULE, impressions, outcomes)

    def _whole(self, topic: str, number: int) -> list[FakeRecord]:
        return [*self._gone.get((topic, number), ()), *self._cluster.log(topic, number).committed()]


def run_all(seeds: Sequence[int]) -> None:
    """Let every history happen."""
    for seed in seeds:
        try:
            JoinSchedule(seed).run()
        except BaseException as error:
            error.add_note(f"in the history of seed {seed}")
            raise


class TestRandomHistories:
    """Many joiners, and all kinds of accidents at once."""

    def test_histories_are_varied(self) -> None:
        """In a few dozen of them processes end in every way, and all that a loop can be told is told."""
        ended: Counter[End | None] = Counter()
        called: set[str] = set()
        for seed in range(20):
            schedule = JoinSchedule(seed)
            schedule.run()
            ended.update(process.ended for process in schedule.processes)
            called |= {name for process in schedule.processes for name in process.broker.calls}
        assert ended.keys() == {None, *End}
        assert {"abort", "rejoin", "reader.fetch", "commit", "send", "close"} <= called

    def test_histories(self) -> None:
        """Crashes, restarts, zombies, rebalances, aborts, time-outs, retention, in any order."""
        run_all(range(SCHEDULES))

    @pytest.mark.long
    def test_many_more(self) -> None:
        """The same, for as long as one likes."""
        run_all(range(SCHEDULES, SCHEDULES + LONG_SCHEDULES))
