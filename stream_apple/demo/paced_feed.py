"""Sends the examples from a thread, at a steady pace, and never further ahead of the answers than there is room.

The embedded cluster drops what it has no room for, whoever has not read it yet: a real cluster keeps it for days.
"""

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from typing import Self

from stream_apple.adapters.kafka.example_producer import DeliveryTotals, RateLimiter, TopicWriter
from stream_apple.demo.cluster import ROOM_BYTES
from stream_apple.records.message.example import Example

_LONGEST_MESSAGE = 256  # an example, or its prediction, uncompressed, with what Kafka adds
MOST_AHEAD = ROOM_BYTES // _LONGEST_MESSAGE
"""Examples that may be sent and unanswered: all of them, and all their predictions, fit into the cluster."""


class Feed:
    """Sends `examples` to partition 0 of `topic` while this context is open.

    sent   examples handed to the producer so far
    """

    def __init__(self, bootstrap: str, topic: str, examples: Iterable[Example], per_second: int) -> None:
        self.sent = 0
        self._answered = 0
        self._examples = examples
        self._per_second = per_second
        self._writer = TopicWriter({"bootstrap.servers": bootstrap}, topic, partitions=1)
        self._room = threading.Semaphore(MOST_AHEAD)
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(1, "feed")
        self._sending: Future[DeliveryTotals] | None = None

    def answered(self, count: int) -> None:
        """Tell how many predictions have been read, which makes room. Raises what the thread has failed with."""
        if count > self._answered:
            self._room.release(count - self._answered)
            self._answered = count
        if self._sending is not None and self._sending.done():
            self._sending.result()

    def __enter__(self) -> Self:
        limiter = RateLimiter(Fraction(self._per_second))
        self._sending = self._pool.submit(self._writer.write, self._within_room(), limiter, self._stopping.is_set)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._room.release()
        self._pool.shutdown()

    def _within_room(self) -> Iterator[Example]:
        for example in self._examples:
            self._room.acquire()
            if self._stopping.is_set():
                return
            self.sent += 1
            yield example
