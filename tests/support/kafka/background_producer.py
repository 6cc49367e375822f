"""A topic that goes on filling while a test looks elsewhere."""

import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from confluent_kafka import Producer
from support.waiting import DEADLINE_S

from stream_apple.stream.log.ports import Header


class Message(NamedTuple):
    """A record to send."""

    partition: int
    value: bytes | None
    time_ms: int
    key: bytes | None = None
    headers: list[Header] | None = None


class BackgroundProducer:
    """Sends batch after batch from a thread of its own, with a pause before each, until it is stopped; a context.

    batches  each is asked for when it is to be sent; should there be no more, nothing is sent
    """

    def __init__(self, bootstrap: str, topic: str, batches: Iterator[Iterable[Message]], pause_s: float) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
        self._topic = topic
        self._batches = batches
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more; what was sent has arrived."""
        self._stopping.set()
        self._thread.join()
        self._wait_for_delivery()

    def send_first(self, messages: Iterable[Message]) -> None:
        """Send these before the context begins; they have arrived when this returns."""
        self._send(messages)
        self._wait_for_delivery()

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s):
            self._send(next(self._batches, ()))

    def _send(self, messages: Iterable[Message]) -> None:
        for partition, value, time_ms, key, headers in messages:
            self._producer.produce(self._topic, value, key, partition, timestamp=time_ms, headers=headers)
        self._producer.poll(0)

    def _wait_for_delivery(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0
