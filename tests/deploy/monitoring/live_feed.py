"""An endless stream of small examples with everything in it that a dashboard has a panel for."""

import itertools
import random
import time
from collections.abc import Iterator

from support.kafka.background_producer import BackgroundProducer, Message

from stream_apple.records.message.example import Example, encode_example

BACKLOG = 12_000
"""Examples of each partition that wait from the start: more than the 10,000 that recent losses look back on."""
BACKLOG_S = 60.0
"""The event time that they cover."""
LATE_S = 12.0
"""How much too late a late one is."""
_PAUSE_S = 0.2
_PER_PAUSE = 40
_NOISE = 0.3


def _example(draw: random.Random, number: int) -> bytes:
    """One example whose label, 0 or 1, is linear in part; the rest needs the pair. One in 500 is unusable."""
    if number % 500 == 499:
        return b"no msgpack map"
    u, v = draw.randrange(3), draw.randrange(3)
    label = float((2.0 if u == v else 0.0) + 0.5 * u + draw.gauss(0.0, _NOISE) > 1.0)
    features = {f"u{u}": 1.0, f"v{v}": 1.0, f"w{draw.randrange(8)}": 1.0}
    return encode_example(Example(None if number % 50 == 0 else label, 1.0, number, features))


def live_feed(bootstrap: str, topic: str, partitions: int) -> BackgroundProducer:
    """Has produced a backlog of the last minute; goes on with some hundred examples a second in their time."""
    draw = random.Random(5)

    def messages(number: int, at_s: float) -> Iterator[Message]:
        late_s = LATE_S if number % 40 == 7 else 0.0
        for partition in range(partitions):
            yield Message(partition, _example(draw, number), int(1000 * (at_s - late_s)))

    def live() -> Iterator[list[Message]]:
        for first in itertools.count(BACKLOG, _PER_PAUSE):
            now_s = time.time()
            yield [message for number in range(first, first + _PER_PAUSE) for message in messages(number, now_s)]

    feed = BackgroundProducer(bootstrap, topic, live(), _PAUSE_S)
    start_s, step_s = time.time() - BACKLOG_S, BACKLOG_S / BACKLOG
    feed.send_first(message for number in range(BACKLOG) for message in messages(number, start_s + number * step_s))
    return feed
