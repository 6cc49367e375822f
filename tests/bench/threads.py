"""What several learning threads are worth where the broker is elsewhere: `python tests/bench/threads.py [METHOD]`.

The real loop of a worker, with a recorded feed in place of Kafka: records that the client has delivered already, and
predictions that nobody takes. So all that this machine does is the worker's own work. Four partitions, or one.

Before that, what two threads are worth if there is nothing but learning: two models of 2^18 and of 2^22 slots learn the
same examples, one after the other, and both at once.
"""

import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

import planted
import structlog
from confluent_kafka import Message
from feeds.recorded_feed import RecordedFeed
from report import figure, header
from support.merges import nothing_merged
from support.null_watchers import NullObserver
from support.records import TOPIC

from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.app.service import SWITCH_S, spare_the_collector
from stream_apple.config import Config, load
from stream_apple.core.batch import Batch
from stream_apple.files import read_examples
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.metrics import Metrics
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import encode_example
from stream_apple.stream.learning.threads import ThreadPool
from stream_apple.stream.log.ports import Record
from stream_apple.stream.loop.loop import Loop, LoopSettings
from stream_apple.stream.loop.owned_partitions import OwnedPartitions
from stream_apple.stream.loop.transaction import CommitSettings
from stream_apple.stream.loop.watchers import Watchers
from stream_apple.stream.model.warmup import warm_up
from stream_apple.stream.positions.lineage import Provenance

EXAMPLES, ROUNDS, FETCH = 200_000, 5, 1_000
START_MS = 1_700_000_000_000


def recorded(messages: Sequence[bytes], partitions: int) -> list[list[Record]]:
    """All records as the client's own objects, a thousand of one partition after another."""
    share = len(messages) // partitions
    batches = [
        [
            Message(TOPIC, number, at, None, messages[number * share + at], None, None, (1, START_MS + at))
            for at in range(start, min(start + FETCH, share))
        ]
        for start in range(0, share, FETCH)
        for number in range(partitions)
    ]
    return cast("list[list[Record]]", batches)


class Spent(NamedTuple):
    """Seconds in all, those of the threads by step, and those of the loop by phase."""

    seconds: float
    steps: dict[str, float]
    phases: dict[str, float]


def spend(config: Config, batches: list[list[Record]], partitions: int, threads: int) -> Spent:
    """How long a worker takes to learn and send everything."""
    settings = settings_of(config)
    provenance = Provenance.of(config)
    feed = RecordedFeed(iter(batches), partitions)
    new_model = model_factory(TOPIC, settings, Decoder(settings.limits))
    metrics = Metrics()
    owned = OwnedPartitions(feed, provenance, new_model, metrics)
    sizes = LoopSettings(FETCH, CommitSettings(50_000, 0.5), 3600.0, threads)
    watchers, merging = Watchers(metrics, Health(), NullObserver()), nothing_merged(feed, provenance)
    loop = Loop(feed, owned, sizes, watchers, ThreadPool(threads), merging)
    share = EXAMPLES // partitions
    loop.start()
    loop.iterate()  # models are made
    begin = time.perf_counter()
    while sum(partition.sent_offset for partition in owned) < share * partitions:
        loop.iterate()
    seconds = time.perf_counter() - begin
    loop._learning.close()
    facts = metrics.facts()
    return Spent(seconds, facts["model_seconds"], {str(phase): value for phase, value in loop._budget.seconds.items()})


def show_parts(spent: list[Spent]) -> None:
    """Where a microsecond of one thread goes, and one of its loop."""
    for who, parts in (("thread", [each.steps for each in spent]), ("loop", [each.phases for each in spent])):
        medians = {name: statistics.median(each[name] for each in parts) / EXAMPLES * 1e9 for name in parts[0]}
        shown = ", ".join(f"{name} {median:,.0f}" for name, median in medians.items() if median >= 1)
        print(f"  ns an example, one thread, the {who}: {shown}", flush=True)


class Both(NamedTuple):
    """What two models took: by the clock, and of the processors' time, in seconds."""

    clock: float
    processors: float


def learn_two(options: Options, batch: Batch, threads: int) -> Both:
    """Two models, which have learned the first half of the examples, learn the others on so many threads."""
    half, size = len(batch.labels) // 2, len(batch.labels)
    learners = [Learner(options), Learner(options)]
    for learner in learners:
        learner.learn(batch, 0, half, Scores.empty(size))
        learner.end_epoch()

    def learn_rest(learner: Learner) -> float:
        begin = time.thread_time()
        learner.learn(batch, half, size, Scores.empty(size))
        return time.thread_time() - begin

    with ThreadPoolExecutor(threads) as pool:
        begin = time.perf_counter()
        spent = sum(pool.map(learn_rest, learners))
        return Both(time.perf_counter() - begin, spent)


def kernels_alone(method: str) -> None:
    """Interleave one thread and two."""
    batch = planted.batch(EXAMPLES // 5)
    for bits in (18, 22):
        options = Options(method=cast("Any", method), bits=bits)
        rounds = [(learn_two(options, batch, 1), learn_two(options, batch, 2)) for _ in range(ROUNDS)]
        what = f"{method}, two models of 2^{bits} slots, two threads over one"
        gain = figure(what, [one.clock / two.clock for one, two in rounds], "ratio")
        # On a machine that does other things, too: a thread that waits for a processor takes none of its time.
        alone = figure(f"{what}, alone", [2 * one.processors / two.processors for one, two in rounds], "ratio")
        print(f"{what}: {gain:.2f} times; with two processors to themselves {alone:.2f}", flush=True)


def main() -> None:
    """Interleave the numbers of threads."""
    method = sys.argv[1] if len(sys.argv) > 1 else "apple"
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    print(header("confluent-kafka", "numba", "numpy"))
    with tempfile.TemporaryDirectory() as name:
        path = planted.write(EXAMPLES, Path(name) / "planted.vw")
        messages = [encode_example(example) for example in read_examples(path)]
    sys.setswitchinterval(SWITCH_S)
    config = load(None, {"STREAM_APPLE_LEARNER__METHOD": method, "STREAM_APPLE_EPOCHS__LENGTH": "10s"})
    warm_up(settings_of(config), Decoder(settings_of(config).limits))
    kernels_alone(method)
    for partitions in (1, 4):
        batches = recorded(messages, partitions)
        spare_the_collector()
        times: dict[int, list[Spent]] = {1: [], 2: []}
        for _ in range(ROUNDS):
            for threads, spent in times.items():
                spent.append(spend(config, batches, partitions, threads))
        what = f"{method}, {partitions} partitions"
        ratios = [one.seconds / two.seconds for one, two in zip(*times.values(), strict=True)]
        gain = figure(f"{what}, two threads over one", ratios, "ratio")
        rates = {
            n: figure(f"{what}, {n} threads", [EXAMPLES / spent.seconds for spent in each], "examples/s")
            for n, each in times.items()
        }
        shown = ", ".join(f"{n} threads {rate:9,.0f}/s" for n, rate in rates.items())
        print(f"{what}: {shown}; two threads {gain:.2f} times one", flush=True)
        show_parts(times[1])


if __name__ == "__main__":
    main()
