"""An endless stream with a pair to find, hostile names and hostile dead letters, in event time that flies."""

import itertools
import random
import time
from collections.abc import Iterator

import msgpack
from support.kafka.background_producer import BackgroundProducer, Message
from support.planted_pair import features

from stream_apple.records.message.example import Example, encode_example

HOSTILE = '<img src=x onerror="window.hacked=1">'
_PER_PAUSE = 20
_PAUSE_S = 0.02
_STEP_MS = 160  # of event time between two examples: an epoch of an hour in some 25 s
_HOUR_MS = 3_600_000
_FIRST_EPOCH_MS = 480_000  # of event time, before the first of them ends


def click_feed(bootstrap: str, topic: str) -> BackgroundProducer:
    """Produces to partition 0."""
    return BackgroundProducer(bootstrap, topic, _batches(), _PAUSE_S)


def _batches() -> Iterator[list[Message]]:
    draw = random.Random(3)
    first_ms = (int(time.time() * 1000) // _HOUR_MS - 1000) * _HOUR_MS - _FIRST_EPOCH_MS
    for first in itertools.count(1, _PER_PAUSE):
        numbers = range(first, first + _PER_PAUSE)
        yield [Message(0, _example(draw, number), first_ms + number * _STEP_MS) for number in numbers]


def _example(draw: random.Random, number: int) -> bytes:
    found, label = features(draw)
    if number % 200 == 0:
        wrong: bytes = msgpack.packb({"label": HOSTILE, "features": found})
        return wrong
    if draw.random() < 0.5:
        found[HOSTILE] = 1.0
        label += 1.5
    return encode_example(Example(label + draw.gauss(0.0, 0.3), 1.0, None, found))
