"""The clicks of `clicks.py` as live traffic: without an end, each example with the time at which it is sent.

A day of the visitors' lives passes in minutes, so that a model that has run for a short while has seen every hour.
"""

import time
from collections.abc import Callable, Iterator
from itertools import cycle

import numpy as np

from stream_apple.config.duration import DAY
from stream_apple.demo.clicks import impressions
from stream_apple.records.message.example import Example

_CHUNK = 256  # drawn at once: at a hundred examples a second, their hours are seconds old

BROKEN = (
    Example(float("inf"), 1.0, None, {"ad=shoes": 1.0}),
    Example(1.0, -1.0, None, {"ad=shoes": 1.0}),
    Example(1.0, 1.0, None, {"ad=shoes": float("inf")}),
    Example(1.0, 1.0, None, {"ad=shoes": 1e30}),
)
"""What a faulty producer sends, in turn: each is a dead letter for a reason of its own."""


def now_ms() -> int:
    """Return the time of day, milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def traffic(seed: int, day_ms: int, broken: float, clock: Callable[[], int] = now_ms) -> Iterator[Example]:
    """Yield examples for ever, label 1 is a click and 0 is none; timestamps are the clock's when each is asked for.

    day_ms  of real time, in which a day of the visitors passes
    broken  share of examples that no worker can use, from 0 to 1
    """
    rng = np.random.default_rng(seed)
    broken_examples = cycle(BROKEN)
    while True:
        lived_ms = clock() * DAY // day_ms
        chunk = impressions(np.full(_CHUNK, lived_ms, np.int64), rng)
        usable = (rng.random(_CHUNK) >= broken).tolist()
        for good, example in zip(usable, chunk.examples(), strict=True):
            yield (example if good else next(broken_examples))._replace(timestamp_ms=clock())
