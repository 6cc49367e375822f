"""An endless stream of small examples, one in a hundred of them unusable in every way there is."""

import itertools
import random
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple, Self

import msgpack
from confluent_kafka import Producer

from stream_apple.records.message.example import Example, encode_example

START_MS = 1_700_000_000_000
"""Event time of the first example: years ago, so that no time in the stream is ahead of a broker's clock."""
STEP_MS = 10
BAD_SHARE = 0.01
_DISTINCT = 4_000
_FAR_MS = 300 * 86_400_000
_NAMES = [f"{letter}{number}" for letter in "abcdefgh" for number in range(12)]


class Message(NamedTuple):
    """A record to send; its event time, so much ahead of the stream's."""

    key: bytes
    value: bytes | None
    ahead_ms: int = 0
    headers: list[tuple[str, str | bytes | None]] | None = None


def good(draw: random.Random, number: int) -> Message:
    """An example of five to eight features, whose label needs pairs; some have no label, some a header."""
    names = draw.sample(_NAMES, draw.randint(5, 8))
    values = {name: round(draw.uniform(0.2, 1.0), 2) for name in names}
    label = sum(values[a] * values[b] for a, b in itertools.pairwise(sorted(names)) if a[0] == b[0]) - len(names) / 10
    example = Example(None if draw.random() < 0.05 else round(label, 3), 1.0, number, values)
    message = Message(b"key-%d" % number, encode_example(example))
    return message._replace(headers=[("trace", b"%d" % number)]) if draw.random() < 0.1 else message


def bad(draw: random.Random, number: int) -> Message:
    """One of the ways to be unusable, in turn."""
    whole = good(draw, number)
    value = whole.value or b""
    kinds: list[Message] = [
        whole._replace(value=b"this is not msgpack"),
        whole._replace(value=value[: draw.randrange(1, len(value))]),
        whole._replace(value=msgpack.packb({"label": 1.0, "features": {"a": float("nan")}})),
        whole._replace(value=msgpack.packb({"label": 1.0})),
        whole._replace(value=msgpack.packb({"label": 1.0, "features": {"a": 1.0}, "padding": "x" * 3_000})),
        whole._replace(value=msgpack.packb({"label": 1.0, "features": {f"f{i}": 1.0 for i in range(40)}})),
        whole._replace(value=msgpack.packb({"label": 1e12, "features": {"a": 1.0}})),
        whole._replace(value=None),
        whole._replace(ahead_ms=_FAR_MS),
    ]
    return kinds[number % len(kinds)]


def messages(seed: int) -> Iterator[Message]:
    """The stream of one partition, without an end."""
    draw = random.Random(seed)
    examples = [good(draw, number) for number in range(_DISTINCT)]
    for number in itertools.count():
        if draw.random() < BAD_SHARE:
            yield bad(draw, number)
        else:
            yield examples[draw.randrange(_DISTINCT)]


class Flood:
    """Sends to all partitions in turn, `rate` messages a second until `finish`; a context.

    The producer may send a message twice when the broker dies: for the workers these are two.

    settings  of the producer; their names have underscores instead of dots
    """

    def __init__(
        self, kafka: str, topic: str, partitions: int, rate: float, seed: int, **settings: str | float | bool
    ) -> None:
        self.sent = 0
        self._topic = topic
        self._rate = rate
        self._least = 0
        self._sources = [messages(seed * 100 + number) for number in range(partitions)]
        self._finishing = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": kafka,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 600_000,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._thread = threading.Thread(target=self._feed)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finishing.set()
        self._thread.join()

    def finish(self, least: int) -> None:
        """Make it `least` messages in all, as fast as it goes, and wait until the broker has them."""
        self._least = least
        self._finishing.set()
        self._thread.join()
        assert self._producer.flush(120) == 0

    def _feed(self) -> None:
        began = time.monotonic()
        while not self._finishing.wait(0.01):
            self._send_up_to(int((time.monotonic() - began) * self._rate))
        self._send_up_to(self._least)

    def _send_up_to(self, count: int) -> None:
        while self.sent < count:
            number, turn = self.sent % len(self._sources), self.sent // len(self._sources)
            key, value, ahead_ms, headers = next(self._sources[number])
            time_ms = START_MS + turn * STEP_MS + ahead_ms
            while True:
                try:
                    self._producer.produce(self._topic, value, key, number, timestamp=time_ms, headers=headers)
                    break
                except BufferError:
                    # The broker is away: nothing is lost, and the workers have nothing to read meanwhile.
                    self._producer.poll(0.1)
            self.sent += 1
        self._producer.poll(0)
