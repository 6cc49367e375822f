"""Held partitions and the way out, where they depend on how librdkafka fetches ahead and closes."""

import time
from typing import cast

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.assignment import Recorder
from support.kafka.connections import connect, fetch_some, fill, members_of, wait_for_assignment
from support.topics import FOREVER, TopicFactory

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity
from stream_apple.adapters.kafka.rebalance import RebalanceListener


class TestHeldPartitions:
    """Partitions that are ours while their models are still being found."""

    def test_nothing_comes_of_a_held_partition_until_it_is_released(self, kafka: str, topic: TopicFactory) -> None:
        """The other partition's records come meanwhile; after the release all come, from the start on."""
        examples = topic("examples", partitions=2, config=FOREVER)
        for number in range(2):
            fill(kafka, examples, 3000, number)
        broker = connect(kafka, examples)
        for _ in range(5):
            recorder = Recorder({0: 7, 1: 5}, paused=[0])
            if broker._listener._assignment is None:
                broker.join(recorder)
            else:
                broker._listener._assignment = recorder
                broker.rejoin()
            free = fetch_some(broker, 2995)
            for _ in range(3):
                free += broker.fetch(1000, 0.1)
            assert [record.offset() for record in free if record.partition() == 1][-2995:] == list(range(5, 3000))
            assert {record.partition() for record in free} == {1}
            # What waits for it is known as soon as the client has heard where its log ends.
            assert broker.backlog(0) in {-1, 2993}
            broker.resume(0)
            released = fetch_some(broker, 2993)
            assert [(record.partition(), record.offset()) for record in released] == [(0, n) for n in range(7, 3000)]
            assert recorder.told[-1] == "assigned"
        broker.close()


class TestClosing:
    """The way out."""

    def test_an_assignment_is_answered_before_the_consumer_closes(self, kafka: str, topic: TopicFactory) -> None:
        """Inside the consumer's own `close` the answer could block the process for ever, whatever signal comes."""
        examples = topic("examples", config=FOREVER)
        fill(kafka, examples, 5)
        # The client has the coordinator's answer a moment after the group is stable, and does not say when: on a busy
        # machine the moment is longer. Without the answer, there is nothing to see; then once more, with more patience.
        for patience_s in (0.5, 2.0, 8.0, 32.0):
            order = self._close_before_the_assignment_is_taken(kafka, examples, patience_s)
            if order != ["consumer closes", "consumer is closed"]:
                break
        assert order == ["assigned [0]", "consumer closes", "consumer is closed"]

    @staticmethod
    def _close_before_the_assignment_is_taken(kafka: str, examples: str, patience_s: float) -> list[str]:
        """What happens, in order, to the only member of a new group."""
        order: list[str] = []

        class Watched(RebalanceListener):
            def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
                order.append(f"assigned {[partition.partition for partition in partitions]}")
                super()._on_assign(consumer, partitions)

        class Closing:
            def __init__(self, consumer: Consumer) -> None:
                self._consumer = consumer

            def __getattr__(self, name: str) -> object:
                return getattr(self._consumer, name)

            def close(self) -> None:
                order.append("consumer closes")
                self._consumer.close()
                order.append("consumer is closed")

        group = f"group-{patience_s:g}-of-{examples}"
        broker = KafkaBroker({"bootstrap.servers": kafka}, Identity(group, "w", f"{group}-w"), examples)
        broker._listener = Watched(examples)
        broker._consumer = cast("Consumer", Closing(broker._consumer))
        broker.join(Recorder({0: 0}))
        wait_for_assignment(kafka, group)
        time.sleep(patience_s)
        broker.close()
        return order

    @pytest.mark.parametrize("leaves", [False, True])
    def test_who_is_expected_back_stays_a_member(self, kafka: str, topic: TopicFactory, *, leaves: bool) -> None:
        """The group keeps the partitions for a successor; only who was told to leave gives them to others."""
        examples = topic("examples", config=FOREVER)
        fill(kafka, examples, 5)
        group = f"group-of-{examples}"
        broker = KafkaBroker({"bootstrap.servers": kafka}, Identity(group, "w", f"{group}-w"), examples)
        recorder = Recorder({0: 0})
        broker.join(recorder)
        fetch_some(broker, 5)
        assert members_of(kafka, group) == ["w"]
        if leaves:
            broker.leave()
        broker.close()
        assert members_of(kafka, group) == ([] if leaves else ["w"])
        assert recorder.told == ["assigned"]
