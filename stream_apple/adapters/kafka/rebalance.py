"""Handles rebalances of a member of the group, and keeps the state that depends on them."""

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, Message, TopicPartition

from stream_apple.stream.log.ports import Assignment, Start

_UNASSIGNED_SLICE_S = 0.01


class RebalanceListener:
    """Passes librdkafka's rebalance callbacks on to the loop's `Assignment`; it subscribes to one topic.

    starts    partition -> the offset from which it was assigned
    paused    partition -> the offset from which it is delivered once it is resumed, of the paused ones
    assigned  whether the member has partitions

    The callbacks run inside `Consumer.consume`, on the thread that calls it. librdkafka would lose an exception of the
    loop there, so it is kept, and raised by `raise_pending` when `consume` has returned.
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
        """Subscribe, and pass rebalances on to `assignment` from now on."""
        self._assignment = assignment
        self._subscribe(consumer)

    def rejoin(self, consumer: Consumer) -> None:
        """Give up every partition without telling the loop, and subscribe again."""
        self._silent = True
        consumer.unsubscribe()
        self._subscribe(consumer)

    def detach(self) -> None:
        """Stop passing rebalances on."""
        self._assignment = None

    def consume(self, consumer: Consumer, limit: int, timeout_s: float) -> list[Message]:
        """Return messages that come within `timeout_s`; it returns early, with none, when partitions are assigned."""
        # A call of `Consumer.consume` that brings an assignment lasts to its timeout, and recovery would wait for that.
        slice_s = timeout_s if self.assigned else min(timeout_s, _UNASSIGNED_SLICE_S)
        deadline = time.monotonic() + timeout_s
        while True:
            messages = consumer.consume(limit, slice_s)
            if messages or self.assigned or time.monotonic() >= deadline:
                return messages

    def pause(self, consumer: Consumer, partition: int, offset: int) -> None:
        """Deliver nothing of an assigned partition, later from `offset` on; KafkaException if librdkafka refuses."""
        place = TopicPartition(self._topic, partition, offset)
        self._paused_at_client.add(partition)
        consumer.pause([place])
        # Without a seek, delivery would go on behind the records that were fetched already; `offset` is before them.
        consumer.seek(place)
        self.paused[partition] = offset

    def raise_pending(self) -> None:
        """Raise the exception that the loop has raised in a callback since the last call, if any."""
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
        # `assign` is called in any case, even without partitions: otherwise not even a rejoin would end this rebalance.
        consumer.assign([TopicPartition(self._topic, number, start.offset) for number, start in starts.items()])
        self.assigned = bool(partitions)
        self.starts = {number: start.offset for number, start in starts.items()}
        self.paused = {number: start.offset for number, start in starts.items() if start.paused}
        # This runs inside `consume`, which drops records that were fetched before the pause; they are fetched again.
        consumer.pause([TopicPartition(self._topic, number) for number in self.paused])
        # librdkafka keeps a partition paused even after a new assignment.
        consumer.resume([TopicPartition(self._topic, number) for number in self._paused_at_client - self.paused.keys()])
        self._paused_at_client = set(self.paused)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, None if self._assignment is None else self._assignment.revoked)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, None if self._assignment is None else self._assignment.lost)

    def _give_up(
        self, consumer: Consumer, partitions: list[TopicPartition], tell: Callable[[Sequence[int]], None] | None
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
