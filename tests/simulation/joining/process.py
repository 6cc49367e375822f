"""One life of a joiner in a simulation: the real loop, taken iteration by iteration, until it leaves or is killed."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from simulation.cluster import MemoryCluster
from simulation.faults import MADE_TO_FAIL, CrashError, Fault, FaultyBroker
from simulation.memory_broker import Member, MemoryBroker
from simulation.process import End, Unmeasured
from stream.joining.two_logs import RULE, rule_of

from stream_apple.core.input.framing import Schemas
from stream_apple.errors import StreamAppleError
from stream_apple.stream.joining.join_loop import JoinLoop, JoinOutputs
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.loop.transaction import LoopSettings

GROUP = "joiners"
JOIN_RULE = rule_of(RULE)
OUTPUTS = JoinOutputs("examples", "join-dead-letters")
SETTINGS = LoopSettings(fetch_records=7, commit_records=9, commit_interval_s=2.0, snapshot_interval_s=0.0)


class Watching(NamedTuple):
    """Nobody looks."""

    metrics: Any = Unmeasured()
    health: Any = Unmeasured()


class JoinerProcess:
    """A joiner with an identity; several may have the same.

    ended       how; None while it lives
    error       what it left with
    unprovoked  whether neither a fault nor another member explains that
    """

    def __init__(
        self,
        cluster: MemoryCluster,
        instance: str,
        seconds: Callable[[], float],
        faults: Sequence[Fault] = (),
        delivery: Callable[[int], int] = lambda waiting: waiting,
        rule: JoinRule = JOIN_RULE,
        schemas: Schemas | None = None,
    ) -> None:
        member = Member(GROUP, instance, f"{GROUP}.{instance}")
        self.memory = MemoryBroker(cluster, member, rule.impressions, delivery=delivery)
        self.broker = FaultyBroker(self.memory, faults)
        self.loop = JoinLoop(
            self.broker, rule, OUTPUTS, SETTINGS, Watching(), now=seconds, time_of_day=seconds, schemas=schemas
        )
        self.ended: End | None = None
        self.error: StreamAppleError | None = None
        self.unprovoked = False
        self._started = False

    def step(self) -> None:
        """Start, or iterate once. What ends `JoinLoop.run` ends the process."""
        assert self.ended is None
        self._live(self.loop.iterate if self._started else self.loop.start)
        self._started = True

    def stop(self) -> None:
        """Be asked to stop: the last commit, then leave."""
        assert self.ended is None
        self._live(self.loop.drain if self._started else lambda: None)
        if self.ended is None:
            self._close(End.STOPPED)

    def kill(self) -> None:
        """Nothing of it runs on, and nobody is told."""
        self.ended = End.CRASHED
        self.broker.dead = True  # what is collected of it makes no calls

    def _live(self, part: Callable[[], None]) -> None:
        try:
            part()
        except CrashError:
            self.ended = End.CRASHED
        except StreamAppleError as error:
            self.error = error
            self.unprovoked = self.memory.in_good_standing and MADE_TO_FAIL not in str(error)
            self._close(End.LEFT)

    def _close(self, how: End) -> None:
        self.ended = how
        try:
            self.loop.close()
        except CrashError:
            self.ended = End.CRASHED
