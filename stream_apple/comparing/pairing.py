"""Answers of several groups to the same examples, brought together by partition and offset, in bounded memory.

The answers of a group are in the order of their examples in each partition. So a side that has skipped an example will
never answer it: it has a dead letter there, or had not begun. Then the other sides' answers have no partner. Only the
answers by which one side is ahead wait for partners. A side that is too far ahead has to wait, partition by partition,
so that no two sides wait for each other.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

Paired = TypeVar("Paired")


class Placed(NamedTuple, Generic[Paired]):
    """What one side has for the example at an offset."""

    offset: int
    item: Paired


class Pairing(Generic[Paired]):
    """Holds the items of sides 0 to `sides` - 1 until all sides have one for the same example.

    most  a side with more waiting items in a partition has to wait; items that have come already are taken all the same

    unpaired  by side: how many items had no partner on another side
    repeated  by side: how many items were left out, as they are for an example at or before the last one
    """

    def __init__(self, sides: int, most: int) -> None:
        self.unpaired = [0] * sides
        self.repeated = [0] * sides
        self._most = most
        self._waiting: list[dict[int, deque[Placed[Paired]]]] = [defaultdict(deque) for _ in range(sides)]
        self._last: list[dict[int, int]] = [defaultdict(lambda: -1) for _ in range(sides)]

    def put(self, side: int, partition: int, items: Iterable[Placed[Paired]]) -> None:
        """Add the next items of a side in a partition."""
        queue, last = self._waiting[side][partition], self._last[side][partition]
        for each in items:
            if each.offset <= last:
                self.repeated[side] += 1
            else:
                last = each.offset
                queue.append(each)
        self._last[side][partition] = last

    def take(self, partition: int) -> list[tuple[Paired, ...]]:
        """Return the items that all sides have in a partition, one of each side, in the order of the examples."""
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
        """Return whether a side has to wait for the others in a partition."""
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
