"""An endless stream with a pair to find, hostile names and hostile dead letters, in event time that flies."""

import random
import threading
import time
from typing import Self

import msgpack
from confluent_kafka import Producer
from runtime.planted_pair import features

from stream_apple.core.examples import Example, encode_example

HOSTILE = '<img src=x onerror="window.hacked=1">'
_PER_PAUSE = 40
_PAUSE_S = 0.02
_STEP_MS = 80  # of event time between two examples: an epoch of an hour in some 25 s
_HOUR_MS = 3_600_000
_FIRST_EPOCH_MS = 240_000  # of event time, before the first of them ends


class ClickFeed:
    """Produces to partition 0 until its context ends."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _go_on(self) -> None:
        draw = random.Random(3)
        at_ms = (int(time.time() * 1000) // _HOUR_MS - 1000) * _HOUR_MS - _FIRST_EPOCH_MS
        number = 0
        while not self._stop.wait(_PAUSE_S):
            for _ in range(_PER_PAUSE):
                number += 1
                at_ms += _STEP_MS
                self._producer.produce(self._topic, self._message(draw, number), partition=0, timestamp=at_ms)
            self._producer.poll(0)

    @staticmethod
    def _message(draw: random.Random, number: int) -> bytes:
        found, label = features(draw)
        if number % 200 == 0:
            wrong: bytes = msgpack.packb({"label": HOSTILE, "features": found})
            return wrong
        if draw.random() < 0.5:
            found[HOSTILE] = 1.0
            label += 1.5
        return encode_example(Example(label + draw.gauss(0.0, 0.3), 1.0, None, found))
