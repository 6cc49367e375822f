"""Finds partitions that were added while members were away, and that the group has given to nobody.

A static member that comes back has its former partitions at once, without a rebalance, also if it is the leader who
would share new ones out. Kafka's client rebalances when the number of partitions differs from the one that it found at
its own start, so it does not notice those that are older. Until another rebalance happens, nobody owns them.

An offset shows that somebody has owned a partition: so a member looks for partitions without one, a minute after its
start, and joins again if it finds any that it does not own. A partition that has had no record looks the same, and then
the group is rebalanced once for nothing.
"""

import time
from collections.abc import Callable, Collection

import structlog

from stream_apple.stream.log.ports import Assignment, Broker

LOOK_AFTER_S = 60.0
"""By then other members that have started as well have committed something."""

_log = structlog.get_logger()


class AddedPartitions:
    """Looks once in the life of a member."""

    def __init__(self, broker: Broker, now: Callable[[], float] = time.monotonic) -> None:
        self._broker = broker
        self._now = now
        self._look_at = now() + LOOK_AFTER_S
        self._looked = False

    def claim(self, count: int, owned: Collection[int], member: Assignment) -> None:
        """Have the member give up what it owns and join again if, when it is time to look, a partition is nobody's.

        count   of the partitions of the input
        member  is told that its partitions are revoked; it must have partitions assigned, or be assigned none
        """
        if self._looked or self._now() < self._look_at:
            return
        self._looked = True
        others = [number for number in range(count) if number not in owned]
        found = self._broker.committed_now(others) if others else {}
        unowned = [number for number in others if found[number] is None]
        if unowned:
            _log.info("rebalance_asked", partitions=unowned)
            member.revoked(list(owned))
            self._broker.rejoin()
