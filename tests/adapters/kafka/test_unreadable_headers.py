"""A header whose name is not UTF-8, from a real broker: to ask the real client for it twice ends the process."""

from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaProducer
from support.topics import TopicFactory
from support.waiting import wait_until

from stream_apple.records.framing import HEADER
from stream_apple.stream.log.contents import content_of, headers_of


class NoText(str):
    """The name of a header, in bytes that are not UTF-8."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Whatever the encoding."""
        del encoding, errors
        return b"\xff\xfe"


def test_it_may_be_asked_for_again_and_again(kafka: str, topic: TopicFactory) -> None:
    """Each reader of a record asks: the gate, the decoder, and the writer of the dead letter."""
    name = topic("headers")
    producer = KafkaProducer(bootstrap_servers=kafka)
    for headers in ([(NoText("x"), b"1")], [(HEADER, b"\1" + bytes(16))]):
        producer.send(name, value=b"value", partition=0, headers=headers)
    producer.close()
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "headers"})
    consumer.assign([TopicPartition(name, 0, 0)])
    found: list[Any] = []

    def read() -> bool:
        found.extend(consumer.consume(2, 1.0))
        return len(found) == 2

    wait_until(read, "both records")
    consumer.close()
    broken, sound = found
    # The interpreter optimizes a call that is repeated.
    for _ in range(1000):
        assert headers_of(broken) is None
        assert content_of(broken, framed=True) == b"value"
        assert content_of(sound, framed=True) == b"\1" + bytes(16) + b"value"
