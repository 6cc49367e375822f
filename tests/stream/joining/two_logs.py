"""Made-up impressions and outcomes of one partition, from a seed, and joins of them in any portions."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import msgpack
from support.oracles.offline_join import Example, Joined, Rule, content_of
from support.records import FakeRecord

from stream_apple.records.framing import Schemas
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.mapped_messages import JoinInput
from stream_apple.stream.joining.own_messages import heartbeat_value
from stream_apple.stream.joining.partition_join import Joined as Step
from stream_apple.stream.joining.partition_join import PartitionJoin
from stream_apple.stream.joining.position import JoinPosition
from stream_apple.stream.joining.rule import JoinRule

SECOND = 1000
START = 1_700_000_000_000
RULE = Rule(wait=60 * SECOND, tolerance=5 * SECOND, default=-1.0)
ORIGIN = JoinPosition(0, 0, 0, OutcomeClock())


class TwoLogs(NamedTuple):
    """What the two logs of a partition hold."""

    impressions: list[FakeRecord]
    outcomes: list[FakeRecord]


def rule_of(rule: Rule, max_outcomes: int = 1_000_000) -> JoinRule:
    """The product's rule of the same content."""
    default, several = rule.default, rule.several
    times = rule.wait, rule.tolerance
    return JoinRule("impressions", "outcomes", *times, default, several, max_outcomes, 10_000, examples="examples")


def make_logs(
    seed: int, count: int = 80, *, disorder_ms: int = 2 * SECOND, heartbeats: bool = True, odd: float = 0.0
) -> TwoLogs:
    """Some minutes of traffic, and heartbeats of five further minutes.

    disorder_ms  how late a record may reach its log
    odd          the share of records whose time is far from true
    """
    draw = random.Random(seed)
    events: list[tuple[float, str, bytes, int]] = []
    for number in range(count):
        at = START + draw.randrange(300 * SECOND)
        name = draw.choice([f"i{number}", f"i{number % 20}"]) if draw.random() < 0.3 else f"i{number}"
        message: dict[str, object] = {"id": name, "features": {"a": number}, "more": [None, {"x": 1}]}
        if draw.random() < 0.1:
            message["label"] = draw.choice([None, 7])
        events.append((at + draw.random() * disorder_ms, "impression", msgpack.packb(message), _odd(draw, at, odd)))
        for _ in range(draw.choice([0, 0, 1, 1, 2])):
            then = at + draw.randrange(-4 * SECOND, 80 * SECOND)
            outcome: dict[str, object] = {"id": name if draw.random() < 0.9 else "nobody", "label": draw.randrange(5)}
            if draw.random() < 0.3:
                outcome["weight"] = 0.5
            events.append(
                (then + draw.random() * disorder_ms, "outcome", msgpack.packb(outcome), _odd(draw, then, odd))
            )
    seconds = range(0, 600, 3) if heartbeats else range(590, 600)
    events += [(START + second * SECOND, "heartbeat", b"", START + second * SECOND) for second in seconds]
    logs = TwoLogs([], [])
    holes = [0, 0]
    for _, kind, value, time in sorted(events):
        log, which = (logs.impressions, 0) if kind == "impression" else (logs.outcomes, 1)
        holes[which] += draw.random() < 0.1  # a marker of a transaction
        at = len(log) + holes[which]
        covers = logs.impressions[-1].at + 1 if logs.impressions else 0
        content = heartbeat_value(covers) if kind == "heartbeat" else value
        log.append(FakeRecord(0, at, content, time, b"key-%d" % at))
    return logs


def _odd(draw: random.Random, at: int, share: float) -> int:
    if draw.random() >= share:
        return at
    return at + draw.choice([-1, 1]) * draw.choice([20, 100, 10_000, 10_000_000]) * SECOND


class Harness:
    """Joins two logs in random portions; the whole of what came out is kept, as a broker would keep it."""

    def __init__(self, rule: JoinRule, logs: TwoLogs, seed: int, schemas: Schemas | None = None) -> None:
        self.rule = rule
        self._records = JoinInput(rule, schemas)
        self.joined = Joined([], [], [])
        self._logs = logs
        self._draw = random.Random(seed)
        self._begin(ORIGIN)

    def _begin(self, position: JoinPosition) -> None:
        self.join = PartitionJoin(self.rule, position)
        self._read = [position.impressions, position.window_from]

    def restart(self) -> None:
        """Crash behind a commit, and go on from what was committed."""
        self._begin(self.join.position)

    def run(self, restarts: float = 0.0) -> Joined:
        """All that can be decided."""
        ended = False
        while not ended:
            before = self.join.position
            impressions = self._next(self._logs.impressions, 0)
            outcomes = self._next(self._logs.outcomes, 1)
            end = self._logs.impressions[-1].at + 1
            self.join.offer_impressions(self._records.impressions(impressions), self._read[0], end)
            self.join.offer_outcomes(self._records.outcomes(outcomes))
            self._keep(self.join.advance(self._draw.choice([1, 3, 1000])))
            whole = all(log[-1].at < read for log, read in zip(self._logs, self._read, strict=True))
            ended = whole and self.join.position == before and not self.join.restoring
            if not ended and self._draw.random() < restarts:
                self.restart()
        return self.joined

    def _next(self, log: Sequence[FakeRecord], which: int) -> list[FakeRecord]:
        found = [record for record in log if record.at >= self._read[which]][: self._draw.choice([0, 1, 5, 40])]
        if found:
            self._read[which] = found[-1].at + 1
        return found

    def _keep(self, step: Step) -> None:
        for key, value, time in zip(step.keys, step.values, step.timestamps_ms, strict=True):
            self.joined.examples.append(Example(key, content_of(value), time))
        for refused in step.refused:
            of_impressions = refused.topic == self.rule.impressions
            log = self.joined.refused_impressions if of_impressions else self.joined.refused_outcomes
            log.append(refused.record.offset())
