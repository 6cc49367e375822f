"""Snapshots through a real broker, and what a recovery costs: `python tests/bench/recovery.py`.

1. A table of 2^22 slots, full: how long its snapshot takes to write and to restore, and for how long the loop is
   silent meanwhile (its longest turn), while examples go on flowing.
2. Learning 1,000,000 planted examples for the first time, beside restoring a snapshot and replaying them: the ratio.
3. The 327,346 flights of `flights.py` with epochs of an hour, of which there are thousands: learning them for the first
   time, beside replaying all of them, and beside `stream-apple verify`.

With the numbers of parts, only these: `python tests/bench/recovery.py 3`.

Broker and worker share this machine. Needs Java 17 and Maven, or STREAM_APPLE_TEST_BOOTSTRAP.
"""

import itertools
import logging
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import flights
import msgpack
import numpy as np
import planted
import structlog
from feeds.streams import broker, fill, send
from report import figure, header
from support.null_watchers import NullObserver
from support.topics import create_worker_topics, unique_topics
from support.worker_config import write_config

from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.app.startup import connect
from stream_apple.app.verify import verify
from stream_apple.app.worker import assemble
from stream_apple.config import Config, load
from stream_apple.files import read_examples
from stream_apple.learners.apple.learner import as_apple
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.metrics import Metrics
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.stream.model.warmup import warm_up
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import State

BITS, FILLING, FEATURES, FLOWING = 22, 1_500, 4_000, 40_000
EXAMPLES, REPEATS = 100_000, 10
ROUNDS = 3


class Life:
    """One life of a worker in this process, iterated by hand and timed."""

    def __init__(self, config: Config) -> None:
        settings = settings_of(config)
        decoder = Decoder(settings.limits)
        warm_up(settings, decoder)
        self._metrics = Metrics()
        self._broker = connect(config)
        new_model = model_factory(config.topics.examples, settings, decoder)
        self._loop, self._owned = assemble(config, self._broker, new_model, self._metrics, Health(), NullObserver())
        self.longest_turn = 0.0
        self._loop.start()

    @property
    def partition(self) -> Partition:
        """The only one, when it is ours."""
        return self._owned.by_number[0]

    def sample(self, name: str, **labels: str) -> float:
        """A metric's value."""
        return self._metrics.registry.get_sample_value(f"stream_apple_{name}", labels) or 0.0

    def turn_until(self, done: Callable[[], bool]) -> float:
        """Seconds of turning; the longest turn is kept."""
        began = time.perf_counter()
        self.longest_turn = 0.0
        while not done():
            before = time.perf_counter()
            self._loop.iterate()
            self.longest_turn = max(self.longest_turn, time.perf_counter() - before)
        return time.perf_counter() - began

    def become_live(self) -> float:
        """Seconds until the partition is assigned, restored and replayed."""
        return self.turn_until(lambda: 0 in self._owned.by_number and self.partition.state is State.LIVE)

    def learn_to(self, offset: int) -> float:
        """Seconds until everything below `offset` is learned and committed."""
        self.become_live()
        return self.turn_until(lambda: self.partition.committed_offset >= offset)

    def save(self) -> float:
        """Seconds that the next snapshot takes, from its state to its last message; it is committed then."""
        count, spent = self.sample("snapshot_seconds_count"), self.sample("snapshot_seconds_sum")
        self.turn_until(lambda: self.sample("snapshot_seconds_count") > count and self.partition.written is None)
        return self.sample("snapshot_seconds_sum") - spent

    def drain(self) -> None:
        """The last commit, with a snapshot."""
        self._loop.drain()

    def die(self) -> None:
        """Leave without a last commit or snapshot, and free the identity for the next life."""
        self._broker.close()


def config_of(
    bootstrap: str,
    directory: Path,
    snapshot_interval: str,
    epoch: str = f"{EXAMPLES * REPEATS // 8}ms",
    **learner: str | int,
) -> Config:
    """A worker on new topics."""
    path = write_config(
        directory / f"{uuid.uuid4().hex}.toml",
        bootstrap,
        topics=create_worker_topics(unique_topics(bootstrap)),
        worker={"snapshot_interval": snapshot_interval},
        learner=learner,
        epochs={"length": epoch},
    )
    return load(path, {})


def wide_examples() -> list[bytes]:
    """Examples of new features each, which fill the table."""
    draw = np.random.default_rng(0)
    return [packed(draw.integers(1, 1 << 63, FEATURES, dtype=np.uint64).tobytes()) for _ in range(FILLING)]


def packed(indices: bytes) -> bytes:
    """In the packed form."""
    return bytes(msgpack.packb({"label": 1.0, "features": {"indices": indices}}))


def large_snapshot(bootstrap: str, directory: Path) -> None:
    """Part 1."""
    config = config_of(bootstrap, directory, "1s", bits=BITS)
    small = [encode_example(example) for example in itertools.islice(read_examples(directory / "planted.vw"), 1000)]
    fill(bootstrap, config.topics.examples, wide_examples())
    fill(bootstrap, config.topics.examples, itertools.islice(itertools.cycle(small), FLOWING), FILLING)
    life = Life(config)
    life.learn_to(FILLING + FLOWING)
    writing, restoring, writing_turns, restoring_turns = [], [], [], []
    size, full = 0.0, 0.0
    for _ in range(ROUNDS):
        fill(bootstrap, config.topics.examples, itertools.islice(itertools.cycle(small), FLOWING), FILLING)
        writing.append(life.save())
        writing_turns.append(life.longest_turn)
        learner = life.partition.model.learner
        full = as_apple(learner).occupied / as_apple(learner).capacity
        size = life.sample("snapshot_bytes", partition="0")
        life.die()
        life = Life(config)
        life.become_live()
        restoring.append(life.sample("restore_seconds_sum"))
        restoring_turns.append(life.longest_turn)
    life.die()
    print(f"2^{BITS} slots, {full:.0%} full, {size / 1e6:.0f} MB compressed, medians (maxima) of {ROUNDS}:")
    for name, seconds, silent in (("write", writing, writing_turns), ("restore", restoring, restoring_turns)):
        print(
            f"  {name:8} {figure(f'{name} a full table', seconds, 's'):.2f} s ({max(seconds):.2f}),"
            f" longest turn of the loop {figure(f'{name}, longest turn', silent, 's'):.2f} s ({max(silent):.2f})",
            flush=True,
        )


def repeated(messages: list[bytes]) -> Iterator[bytes]:
    """The messages, REPEATS times."""
    return itertools.chain.from_iterable(itertools.repeat(messages, REPEATS))


def replay(bootstrap: str, directory: Path) -> None:
    """Part 2."""
    messages = [encode_example(example) for example in read_examples(directory / "planted.vw")]
    ratios = []
    for _ in range(ROUNDS):
        config = config_of(bootstrap, directory, "1d", loss="logistic")
        # A snapshot of a model with a past, and none of what follows.
        fill(bootstrap, config.topics.examples, messages)
        life = Life(config)
        life.learn_to(EXAMPLES)
        life.drain()
        life.die()
        fill(bootstrap, config.topics.examples, repeated(messages), EXAMPLES)
        total = EXAMPLES * (REPEATS + 1)
        life = Life(config)
        life.become_live()
        first = life.learn_to(total)
        life.die()
        life = Life(config)
        second = life.become_live()
        assert life.partition.model.next_offset >= total
        life.die()
        ratios.append(second / first)
        print(f"  first time {first:.1f} s, restore and replay {second:.1f} s, ratio {ratios[-1]:.2f}", flush=True)
    ratio = figure("restore and replay over the first time", ratios, "ratio")
    print(f"{EXAMPLES * REPEATS:,} planted examples, restore and replay / first time: {ratio:.2f}")


def flight_messages() -> list[tuple[int, bytes]]:
    """Examples with their times, in their order."""
    return [
        (
            int(flights.scheduled(row).timestamp() * 1000),
            encode_example(
                Example(
                    1.0 if flights.is_late(row) else -1.0,
                    1.0,
                    number,
                    {f"{name}={row[name]}": 1.0 for name in ("carrier", "flight", "tailnum", "origin", "dest", "hour")}
                    | {"distance": float(row["distance"]) / 1000.0},
                )
            ),
        )
        for number, row in enumerate(flights.rows())
    ]


def many_epochs(bootstrap: str, directory: Path) -> None:
    """Part 3."""
    messages = flight_messages()
    ratios: dict[str, list[float]] = {"replay": [], "verify": []}
    for _ in range(ROUNDS):
        config = config_of(bootstrap, directory, "1d", "1h", loss="logistic")
        send(bootstrap, config.topics.examples, messages)
        life = Life(config)
        life.become_live()
        first = life.learn_to(len(messages))
        life.die()
        life = Life(config)
        replayed = life.become_live()
        assert life.partition.model.next_offset >= len(messages)
        life.die()
        began = time.perf_counter()
        (report,) = verify(config, [], None, lambda *_: None)
        verified = time.perf_counter() - began
        assert report.covered.records == len(messages)
        assert not report.fault_count
        ratios["replay"].append(first / replayed)
        ratios["verify"].append(first / verified)
        print(f"  first time {first:.1f} s, replay {replayed:.1f} s, verify {verified:.1f} s", flush=True)
    replay_ratio, verify_ratio = (
        figure(f"flights, {name}: times the speed of learning", ratios[name], "ratio") for name in ratios
    )
    print(
        f"{len(messages):,} flights, epochs of an hour: replayed at {replay_ratio:.2f} times, verified at "
        f"{verify_ratio:.2f} times the speed of learning them for the first time"
    )


def main() -> None:
    """All parts, or those that are named, on one broker."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    print(header("confluent-kafka", "numba", "numpy", "zstandard"))
    parts = {"1": large_snapshot, "2": replay, "3": many_epochs}
    with broker() as (bootstrap, directory):
        planted.write(EXAMPLES, directory / "planted.vw")
        for number in sys.argv[1:] or parts:
            parts[number](bootstrap, directory)


if __name__ == "__main__":
    main()
