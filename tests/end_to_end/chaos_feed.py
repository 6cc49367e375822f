"""An endless stream of small examples, one in a hundred of them unusable in every way there is."""

import itertools
import random
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple, Self

import msgpack
from confluent_kafka import KafkaError, Message, Producer

from stream_apple.core.codec.example import Example, encode_example

START_MS = 1_700_000_000_000
"""Event time of the first example: years ago, so that no time in the stream is ahead of a broker's clock."""
STEP_MS = 10
BAD_SHARE = 0.01
_DISTINCT = 4_000
_STALLED_S = 40.0  # a broker is away for shorter
_FAR_MS = 300 * 86_400_000
_NAMES = [f"{letter}{number}" for letter in "abcdefgh" for number in range(12)]


class Record(NamedTuple):
    """A record to send; its event time, so much ahead of the stream's."""

    key: bytes
    value: bytes | None
    ahead_ms: int = 0
    headers: list[tuple[str, str | bytes | None]] | None = None


def good(draw: random.Random, number: int) -> Record:
    """An example of five to eight features, whose label needs pairs; some have no label, some a header."""
    names = draw.sample(_NAMES, draw.randint(5, 8))
    values = {name: round(draw.uniform(0.2, 1.0), 2) for name in names}
    label = sum(values[a] * values[b] for a, b in itertools.pairwise(sorted(names)) if a[0] == b[0]) - len(names) / 10
    example = Example(None if draw.random() < 0.05 else round(label, 3), 1.0, number, values)
    record = Record(b"key-%d" % number, encode_example(example))
    return record._replace(headers=[("trace", b"%d" % number)]) if draw.random() < 0.1 else record


def bad(draw: random.Random, number: int) -> Record:
    """One of the ways to be unusable, in turn."""
    whole = good(draw, number)
    value = whole.value or b""
    kinds: list[Record] = [
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


def messages(seed: int) -> Iterator[Record]:
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

    The producer may send a message twice when the broker dies: for the workers these are two. In rare cases a producer
    of librdkafka sends nothing more after a broker has come back (its issues 4976 and 5511). Such a one is replaced,
    and what it held is never sent: what counts here is what the log has.

    stalled  how many producers were replaced
    """

    def __init__(self, kafka: str, topic: str, partitions: int, rate: float, seed: int) -> None:
        self.stalled = 0
        self._kafka = kafka
        self._topic = topic
        self._rate = rate
        self._sources = [messages(seed * 100 + number) for number in range(partitions)]
        self._made = 0
        self._acknowledged = 0
        self._heard = time.monotonic()
        self._finishing = threading.Event()
        self._producer = self._new_producer()
        self._thread = threading.Thread(target=self._feed)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finishing.set()
        self._thread.join()

    def finish(self, least: int) -> None:
        """Make it `least` messages in the log at least, as fast as it goes; return when none is on its way."""
        self._finishing.set()
        self._thread.join()
        while self._acknowledged < least or len(self._producer):
            self._send(least - self._acknowledged - len(self._producer))
            self._serve(0.1)

    def _feed(self) -> None:
        began = time.monotonic()
        while not self._finishing.wait(0.01):
            self._send(int((time.monotonic() - began) * self._rate) - self._made)
            self._serve(0)

    def _send(self, count: int) -> None:
        for _ in range(count):
            number, turn = self._made % len(self._sources), self._made // len(self._sources)
            key, value, ahead_ms, headers = next(self._sources[number])
            time_ms = START_MS + turn * STEP_MS + ahead_ms
            while True:
                try:
                    self._producer.produce(
                        self._topic, value, key, number, on_delivery=self._hear, timestamp=time_ms, headers=headers
                    )
                    break
                except BufferError:
                    # The broker is away: nothing is lost, and the workers have nothing to read meanwhile.
                    self._serve(0.1)
            self._made += 1

    def _serve(self, seconds: float) -> None:
        """Hear what the broker has acknowledged, and replace a producer that hears nothing."""
        self._producer.poll(seconds)
        if not len(self._producer):
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > _STALLED_S:
            self._producer.purge()
            self._producer.flush(1)
            self._producer = self._new_producer()
            self._heard = time.monotonic()
            self.stalled += 1

    def _hear(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._acknowledged += 1
            self._heard = time.monotonic()

    def _new_producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._kafka,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 600_000,
                "metadata.recovery.strategy": "none",
                "reconnect.backoff.max.ms": 2_000,
                "log_level": 0,
            }
        )
