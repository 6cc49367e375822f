"""An endless stream of small examples with everything in it that a dashboard has a panel for."""

import itertools
import random
import threading
import time
from typing import Self

from confluent_kafka import Producer

from stream_apple.core.examples import Example, encode_example

BACKLOG = 12_000
"""Examples of each partition that wait from the start: more than the 10,000 that recent losses look back on."""
BACKLOG_S = 60.0
"""The event time that they cover."""
LATE_S = 12.0
"""How much too late a late one is."""
_PAUSE_S = 0.05
_PER_PAUSE = 10
_NOISE = 0.3


def _message(draw: random.Random, number: int) -> bytes:
    """One example whose label is linear in part; the rest needs the pair. One in 500 is unusable."""
    if number % 500 == 499:
        return b"no msgpack map"
    u, v = draw.randrange(3), draw.randrange(3)
    label = (2.0 if u == v else 0.0) + 0.5 * u + draw.gauss(0.0, _NOISE)
    features = {f"u{u}": 1.0, f"v{v}": 1.0, f"w{draw.randrange(8)}": 1.0}
    return encode_example(Example(None if number % 50 == 0 else label, 1.0, number, features))


class LiveFeed:
    """Produces a backlog of the last minute, then some hundred examples a second in their time; a context."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._topic = topic
        self._partitions = partitions
        self._draw = random.Random(5)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on)
        start = time.time() - BACKLOG_S
        for number in range(BACKLOG):
            self._send(number, start + number * BACKLOG_S / BACKLOG)
        assert self._producer.flush(60) == 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more; what was sent has arrived."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            assert self._producer.flush(60) == 0

    def _go_on(self) -> None:
        numbers = itertools.count(BACKLOG)
        while not self._stop.wait(_PAUSE_S):
            for number in itertools.islice(numbers, _PER_PAUSE):
                self._send(number, time.time())

    def _send(self, number: int, at_s: float) -> None:
        late = LATE_S if number % 40 == 7 else 0.0
        for partition in range(self._partitions):
            message = _message(self._draw, number)
            self._producer.produce(self._topic, message, partition=partition, timestamp=int(1000 * (at_s - late)))
        self._producer.poll(0)
