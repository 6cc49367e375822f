"""A joiner in a simulation."""

from collections.abc import Callable, Sequence
from typing import Any

from simulation.cluster import MemoryCluster
from simulation.faults import Fault
from simulation.member_process import Delivery, MemberProcess, Unmeasured, at_once
from simulation.memory_broker import Member
from stream.joining.two_logs import RULE, rule_of

from stream_apple.records.framing import Schemas
from stream_apple.stream.joining.join_loop import JoinLoop, JoinLoopSettings
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.loop.transaction import CommitSettings

GROUP = "joiners"
JOIN_RULE = rule_of(RULE)
DEAD_LETTERS = "join-dead-letters"
_NOBODY: Any = Unmeasured()
SETTINGS = JoinLoopSettings(fetch_records=7, commits=CommitSettings(9, 2.0))


class JoinerProcess(MemberProcess):
    """A joiner with an identity; several may have the same."""

    loop: JoinLoop

    def __init__(
        self,
        cluster: MemoryCluster,
        instance: str,
        seconds: Callable[[], float],
        faults: Sequence[Fault] = (),
        delivery: Delivery = at_once,
        rule: JoinRule = JOIN_RULE,
        schemas: Schemas | None = None,
    ) -> None:
        member = Member(GROUP, instance, f"{GROUP}.{instance}")
        super().__init__(cluster, member, rule.impressions, faults, delivery)
        self.loop = JoinLoop(
            self.broker,
            rule,
            DEAD_LETTERS,
            SETTINGS,
            _NOBODY,
            _NOBODY,
            now=seconds,
            time_of_day=seconds,
            schemas=schemas,
        )
