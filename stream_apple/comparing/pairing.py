"""Answers of several groups to the same examples, brought together by partition and offset, in bounded memory.

The answers of a group are in the order of their examples in each partition. So what one side has behind an example that
it has not answered will never have a partner: it has a dead letter there, or had not begun. Only what one side is ahead
waits for a partner; who is too far ahead has to wait, partition by partition, so that no side waits for one that waits.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

Paired = TypeVar("Paired")


class Placed(NamedTuple, Generic[Paired]):
    """Holds what one side has for the example at an offset."""

    offset: int
    item: Paired


class Pairing(Generic[Paired]):
    """Holds what sides 0 to `sides` - 1 have, until all have it.

    most  items of one side in one partition, above which it is to wait; what has come already is taken all the same

    unpaired  by side: items that another side has nothing for
    repeated  by side: items for examples at or before the last one; they are left out
    """

    def __init__(self, sides: int, most: int) -> None:
        self.unpaired = [0] * sides
        self.repeated = [0] * sides
        self._most = most
        self._waiting: list[dict[int, deque[Placed[Paired]]]] = [defaultdict(deque) for _ in range(sides)]
        self._last: list[dict[int, int]] = [defaultdict(lambda: -1) for _ in range(sides)]

    def put(self, side: int, partition: int, items: Iterable[Placed[Paired]]) -> None:
        """Take what a side has next in a partition."""
        queue, last = self._waiting[side][partition], self._last[side][partition]
        for each in items:
            if each.offset <= last:
                self.repeated[side] += 1
            else:
                last = each.offset
                queue.append(each)
        self._last[side][partition] = last

    def take(self, partition: int) -> list[tuple[Paired, ...]]:
        """Return what all sides have of a partition, in the order of the examples: an item of each side."""
        queues = [each[partition] for each in self._waiting]
        found = []
        while all(queues):
            newest = max(queue[0].offset for queue in queues)
            behind = [side for side, queue in enumerate(queues) if queue[0].offset < newest]
            for side in behind:
                queues[side].popleft()
                self.unpaired[side] += 1
            if not behind:
                found.append(tuple(queue.popleft().item for queue in queues))
        return found

    def must_wait(self, side: int, partition: int) -> bool:
        """Return whether a side is to wait for the others in a partition."""
        return self.waiting(side, partition) > self._most

    def may_go_on(self, side: int, partition: int) -> bool:
        """Return whether a side that has waited may go on: half of what made it wait is gone."""
        return self.waiting(side, partition) <= self._most // 2

    def waiting(self, side: int, partition: int) -> int:
        """Return how many items a side is ahead in a partition."""
        return len(self._waiting[side][partition]) if partition in self._waiting[side] else 0

    def ahead(self) -> Sequence[int]:
        """Return how many items each side is ahead in all partitions together."""
        return [sum(map(len, queues.values())) for queues in self._waiting]
