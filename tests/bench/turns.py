"""For how long a loop with large models is silent: `python tests/bench/turns.py [BITS]`.

Two partitions with tables of 2^BITS slots (24), three quarters full. Epochs end and snapshots are written while records
flow, then a successor restores both. Printed are the longest turns of the loop, and the longest time in which one
partition's predictions stand still while its own model grows or is copied.

The real loop with a recorded feed in place of Kafka (`feeds/recorded_feed.py`): all time is the worker's own.
"""

import itertools
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgpack
import numpy as np
import structlog
from feeds.full_table import fill
from feeds.recorded_feed import RecordedFeed
from report import figure, header
from support.merges import nothing_merged
from support.null_watchers import NullObserver
from support.records import FakeRecord

from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.config import Config, load
from stream_apple.learners.apple.learner import as_apple
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.metrics import Metrics
from stream_apple.records.message.decode import Decoder
from stream_apple.stream.learning.threads import ThreadPool
from stream_apple.stream.log.ports import Record
from stream_apple.stream.loop.loop import Loop, LoopSettings
from stream_apple.stream.loop.owned_partitions import OwnedPartitions
from stream_apple.stream.loop.transaction import CommitSettings
from stream_apple.stream.loop.watchers import Watchers
from stream_apple.stream.model.warmup import warm_up
from stream_apple.stream.partitions.state import State
from stream_apple.stream.positions.lineage import Provenance

PARTITIONS, THREADS, BATCH, FEATURES = 2, 2, 200, 50
EPOCH_MS, SNAPSHOT_S, SECONDS = 60_000, 2.0, 20.0
START_MS = 1_700_000_000_000 // EPOCH_MS * EPOCH_MS
FULL = 0.75


def records() -> Iterator[Sequence[Record]]:
    """Batches of the partitions in turn, with an epoch's end every hundred batches."""
    draw = np.random.default_rng(0)
    payloads = [
        msgpack.packb(
            {"label": 1.0, "features": {"indices": draw.integers(1, 20_000, FEATURES, dtype=np.uint64).tobytes()}}
        )
        for _ in range(BATCH)
    ]
    for number in itertools.count():
        time_ms = START_MS + number * EPOCH_MS // 100
        for partition in range(PARTITIONS):
            yield [FakeRecord(partition, number * BATCH + at, payload, time_ms) for at, payload in enumerate(payloads)]


class Life:
    """A loop, turned by hand."""

    def __init__(self, config: Config, feed: RecordedFeed) -> None:
        settings = settings_of(config)
        self.metrics = Metrics()
        new_model = model_factory(config.topics.examples, settings, Decoder(settings.limits))
        self.owned = OwnedPartitions(feed, Provenance.of(config), new_model, self.metrics)
        sizes = LoopSettings(BATCH, CommitSettings(50_000, 0.1), SNAPSHOT_S, THREADS)
        watchers, merging = (
            Watchers(self.metrics, Health(), NullObserver()),
            nothing_merged(feed, self.owned.provenance),
        )
        self.loop = Loop(feed, self.owned, sizes, watchers, ThreadPool(THREADS), merging)
        self.turns: list[float] = []
        self.still: dict[int, float] = defaultdict(float)
        self._moved: dict[int, tuple[int, float]] = {}
        self.loop.start()

    def turn(self) -> None:
        """Once, with what is measured."""
        began = time.perf_counter()
        self.loop.iterate()
        now = time.perf_counter()
        self.turns.append(now - began)
        for partition in self.owned:
            at, since = self._moved.get(partition.number, (-1, now))
            if partition.sent_offset != at:
                self._moved[partition.number] = partition.sent_offset, now
            self.still[partition.number] = max(self.still[partition.number], now - since)

    def sample(self, name: str) -> float:
        """A metric."""
        return self.metrics.registry.get_sample_value(f"stream_apple_{name}") or 0.0

    def forget(self) -> None:
        """Measure from here on."""
        self.turns.clear()
        self.still.clear()
        self._moved.clear()


def show(what: str, life: Life) -> None:
    """Turns, and what a partition had to wait."""
    longest = sorted(life.turns)[-3:]
    median = figure(f"{what}, turns", [turn * 1e3 for turn in life.turns], "ms")
    still = figure(f"{what}, a partition stood still", [max(life.still.values(), default=0.0) * 1e3], "ms")
    print(
        f"{what:24} {len(life.turns):6} turns, median {median:6.1f} ms, longest "
        f"{', '.join(f'{each * 1e3:.0f}' for each in reversed(longest))} ms; "
        f"a partition stood still for at most {still:.0f} ms",
        flush=True,
    )


def main() -> None:
    """Learn, save, and restore."""
    bits = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(header("numba", "numpy", "zstandard"))
    values = {"BITS": str(bits), "ALPHA": "1.0"}
    config = load(
        None,
        {f"STREAM_APPLE_LEARNER__{name}": value for name, value in values.items()}
        | {"STREAM_APPLE_EPOCHS__LENGTH": f"{EPOCH_MS}ms"},
    )
    warm_up(settings_of(config), Decoder(settings_of(config).limits))
    feed = RecordedFeed(records(), PARTITIONS)
    life = Life(config, feed)
    while not all(partition.sent_offset for partition in life.owned) or not life.owned.by_number:
        life.turn()
    life.loop.drain()
    for partition in life.owned:
        fill(as_apple(partition.model.learner).table, FULL, degree=1)
    life.forget()
    print(f"{PARTITIONS} partitions of 2^{bits} slots, {FULL:.0%} full, {THREADS} threads")
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or life.sample("snapshot_seconds_count") < 2 * PARTITIONS:
        life.turn()
    show("epochs and snapshots", life)
    life.loop.drain()
    life.loop._learning.close()
    digests = {partition.number: partition.model.digest() for partition in life.owned}
    del life
    heir = Life(config, feed)
    while not heir.owned.by_number or any(partition.state is not State.LIVE for partition in heir.owned):
        heir.turn()
    show("restoring", heir)
    assert digests == {partition.number: partition.model.digest() for partition in heir.owned}
    heir.loop._learning.close()


if __name__ == "__main__":
    main()
