"""What a member of the group is told when partitions change hands, and the part of its state that depends on it."""

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, Message, TopicPartition

from stream_apple.stream.log.ports import Assignment, Start

_UNASSIGNED_SLICE_S = 0.01


class RebalanceListener:
    """Passes librdkafka's rebalance callbacks on to the loop's `Assignment`; one subscription of one topic.

    starts    partition -> where to begin with it
    paused    those of them that are not to be delivered before they are resumed
    assigned  whether the member has partitions

    The callbacks run inside `Consumer.consume`, on the thread that calls it. What the loop raises there would be lost
    in librdkafka, so it is kept, and raised by `raise_pending` when `consume` has returned.
    """

    def __init__(self, topic: str) -> None:
        self.starts: dict[int, int] = {}
        self.paused: dict[int, int] = {}
        self.assigned = False
        self._topic = topic
        self._assignment: Assignment | None = None
        self._silent = False
        self._pending: BaseException | None = None
        self._paused_at_client: set[int] = set()

    def join(self, consumer: Consumer, assignment: Assignment) -> None:
        """Subscribe, and tell `assignment` from now on."""
        self._assignment = assignment
        self._subscribe(consumer)

    def rejoin(self, consumer: Consumer) -> None:
        """Give up every partition without a word, and subscribe again."""
        self._silent = True
        consumer.unsubscribe()
        self._subscribe(consumer)

    def detach(self) -> None:
        """Stop passing rebalances on."""
        self._assignment = None

    def consume(self, consumer: Consumer, limit: int, timeout_s: float) -> list[Message]:
        """What comes within `timeout_s`; nothing, soon after partitions were assigned."""
        # A call of `Consumer.consume` that brings an assignment goes on to its timeout, and a recovery would wait.
        slice_s = timeout_s if self.assigned else min(timeout_s, _UNASSIGNED_SLICE_S)
        deadline = time.monotonic() + timeout_s
        while True:
            messages = consumer.consume(limit, slice_s)
            if messages or self.assigned or time.monotonic() >= deadline:
                return messages

    def pause(self, consumer: Consumer, partition: int, offset: int) -> None:
        """Deliver nothing of a partition that is assigned; KafkaException if that is refused."""
        place = TopicPartition(self._topic, partition, offset)
        self._paused_at_client.add(partition)
        consumer.pause([place])
        # What comes after the pause would begin behind what has been delivered: it has to begin before that.
        consumer.seek(place)
        self.paused[partition] = offset

    def raise_pending(self) -> None:
        """Raise what the loop has raised in a callback since the last time."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            raise pending

    def _subscribe(self, consumer: Consumer) -> None:
        self.starts, self.paused = {}, {}
        self.assigned = False
        consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._silent = False
        starts: Mapping[int, Start] = {}
        try:
            if self._assignment is not None:
                starts = self._assignment.assigned([partition.partition for partition in partitions])
        except BaseException as error:  # noqa: BLE001  raised again by raise_pending
            self._pending = error
        # Whatever happened, and even if it is nothing: without `assign`, not even a rejoin would end this rebalance.
        consumer.assign([TopicPartition(self._topic, number, start.offset) for number, start in starts.items()])
        self.assigned = bool(partitions)
        self.starts = {number: start.offset for number, start in starts.items()}
        self.paused = {number: start.offset for number, start in starts.items() if start.paused}
        # Still inside `consume`: what was fetched before the pause is dropped there, and fetched again after it.
        consumer.pause([TopicPartition(self._topic, number) for number in self.paused])
        # librdkafka's pause outlasts an assignment.
        consumer.resume([TopicPartition(self._topic, number) for number in self._paused_at_client - self.paused.keys()])
        self._paused_at_client = set(self.paused)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, None if self._assignment is None else self._assignment.revoked)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, None if self._assignment is None else self._assignment.lost)

    def _give_up(
        self,
        consumer: Consumer,
        partitions: list[TopicPartition],
        tell: Callable[[Sequence[int]], None] | None,
    ) -> None:
        try:
            if tell is not None and not self._silent:
                tell([partition.partition for partition in partitions])
        except BaseException as error:  # noqa: BLE001  raised again by raise_pending
            self._pending = error
        finally:
            self.starts, self.paused = {}, {}
            self.assigned = False
            consumer.unassign()
