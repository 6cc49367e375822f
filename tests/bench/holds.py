"""How long partitions are held while workers are killed and frozen: `python tests/bench/holds.py [--seconds N] ...`.

Three workers merge four partitions (2^18 slots) at the end of each round of two seconds, on a stream of rare features
and pairs that comes as time goes. Every few seconds one of them, whoever leads or any other, is killed and started
again after a while, or stopped by SIGSTOP for up to ten seconds; `merge.patience` is 1 s, `merge.max_hold` 3 s, and a
member of the group is given up after 6 s.

A hold is what a worker logs of it: from when a partition stands at the end of a round to when it goes on, with the
merged model or alone. The time that a worker was frozen itself is no hold: where one overlaps, it is left out, and
counted. Across workers, the time is shown from when a partition first contributed there to when whoever owns it then
goes on: a dead owner, the wait for the group to notice, and a restart are in it.

Ends with an error if a hold was longer than `merge.max_hold` and a second. Needs Java 17 and Maven, or
STREAM_APPLE_TEST_BOOTSTRAP.
"""

import argparse
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from confluent_kafka import Producer
from feeds.streams import START_MS, broker
from merging import BITS, planted_messages
from report import header
from support.topics import create_worker_topics, unique_topics
from support.worker_config import write_config
from support.worker_process import WorkerProcess

PARTITIONS, WORKERS = 4, 3
MAX_HOLD_S, PATIENCE_S, ROUND_S = 3.0, 1.0, 2.0
RATE = 2_000
"""Examples a second, of all partitions together."""


class Life(NamedTuple):
    """A worker from its start to its end, and the times between which it was frozen, of the day."""

    process: WorkerProcess
    frozen: list[tuple[float, float]]


class Hold(NamedTuple):
    """A partition at the end of a round: since when and until when, of the day, and how it went on."""

    partition: int
    round: int
    since: float
    until: float
    outcome: str

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.until - self.since


def holds_of(life: Life) -> list[Hold]:
    """All that a worker has logged."""
    found = []
    for event in life.process.history():
        if event["event"] in ("round_adopted", "round_skipped"):
            until = datetime.fromisoformat(event["timestamp"]).timestamp()
            skipped = event["event"] == "round_skipped"
            outcome = "skipped" if skipped else "adopted" if event["included"] else "late"
            found.append(Hold(event["partition"], event["round"], until - event["seconds"], until, outcome))
    return found


def owner_of_0(lives: Sequence[Life]) -> int:
    """Who leads, by what has been logged last; anybody if that is nobody who lives."""
    newest: dict[int, str] = {}
    for number, life in enumerate(lives):
        live: Any = [event for event in life.process.history() if event["event"] == "live" and event["partition"] == 0]
        if live:
            newest[number] = live[-1]["timestamp"]
    return max(newest, key=newest.__getitem__, default=0)


class Feed:
    """Sends the stream as time goes, in a thread of its own, until its context ends."""

    def __init__(self, bootstrap: str, topic: str, messages: Sequence[bytes]) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic, self._messages = topic, messages
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(60)

    def _run(self) -> None:
        began, number = time.monotonic(), 0
        while not self._ended.wait(0.01):
            elapsed = time.monotonic() - began
            while number < elapsed * RATE:
                value, at = self._messages[number % len(self._messages)], START_MS + 1_000 * number // RATE
                self._producer.produce(self._topic, value, partition=number % PARTITIONS, timestamp=at)
                number += 1
            self._producer.poll(0)


def disturb(bootstrap: str, directory: Path, messages: Sequence[bytes], seconds: float, seed: int) -> list[Life]:
    """Let workers merge for so long, and kill and freeze them; all lives that there were."""
    draw, create = random.Random(seed), unique_topics(bootstrap)
    topics = create_worker_topics(create, PARTITIONS, merges=True)
    config = write_config(
        directory / "worker.toml",
        bootstrap,
        kafka={"session.timeout.ms": 6000},
        topics=topics,
        learner={"bits": BITS},
        epochs={"length": f"{ROUND_S:g}s"},
        merge={"mode": "average", "patience": f"{PATIENCE_S:g}s", "max_hold": f"{MAX_HOLD_S:g}s"},
    )
    lives: list[Life] = []
    with ExitStack() as stack:

        def start(name: int) -> Life:
            process = stack.enter_context(WorkerProcess(config, directory / "worker.log", f"worker-{name}"))
            lives.append(Life(process, []))
            return lives[-1]

        current = [start(number) for number in range(WORKERS)]
        for life in current:
            life.process.wait_for_event("live")
        stack.enter_context(Feed(bootstrap, topics["examples"], messages))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(draw.uniform(4.0, 8.0))
            victim = owner_of_0(current) if draw.random() < 0.5 else draw.randrange(WORKERS)
            process, frozen = current[victim]
            if draw.random() < 0.5:
                process.kill()
                time.sleep(draw.uniform(0.0, 8.0))
                current[victim] = start(victim)
            else:
                since = time.time()
                process.sleep()
                time.sleep(draw.uniform(1.0, 10.0))
                process.wake()
                frozen.append((since, time.time()))
            for number, life in enumerate(current):  # who was away for too long ends by itself, and is started again
                if not life.process.running:
                    current[number] = start(number)
        for life in current:
            if life.process.running:
                life.process.terminate()
    return lives


def report(lives: Sequence[Life]) -> float:
    """Print what there is to see of holds; the longest, in seconds."""
    held = [(life, hold) for life in lives for hold in holds_of(life)]
    awake, dreamt = [], 0
    for life, hold in held:
        if any(since < hold.until and until > hold.since for since, until in life.frozen):
            dreamt += 1
        else:
            awake.append(hold)
    first: dict[tuple[int, int], float] = {}
    for life in lives:
        for event in life.process.history():
            if event["event"] == "round_contributed":
                place, at = (event["partition"], event["round"]), datetime.fromisoformat(event["timestamp"]).timestamp()
                first[place] = min(first.get(place, at), at)
    across = [hold.until - min(first.get((hold.partition, hold.round), hold.since), hold.since) for _, hold in held]
    seconds = [hold.seconds for hold in awake]
    frozen = sum(len(life.frozen) for life in lives)
    print(f"{len(lives) - WORKERS} workers killed or ended, {frozen} frozen; {len(seconds)} holds: ", end="")
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(Counter(h.outcome for h in awake).items())))
    print(f"  held by a worker: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s", end="")
    print(f"; {dreamt} more while it was frozen itself")
    print(f"  across workers: longest {max(across):.2f} s", flush=True)
    return max(seconds)


def main() -> None:
    """Bring a broker, or use the one named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180.0, help="for which workers are killed and frozen")
    parser.add_argument("--seed", type=int, default=1, help="of who is, when, and for how long")
    asked = parser.parse_args()
    print(header("confluent-kafka", "numba", "numpy"))
    messages = planted_messages(50_000)
    with broker() as (bootstrap, directory):
        longest = report(disturb(bootstrap, directory, messages, asked.seconds, asked.seed))
    most = MAX_HOLD_S + 1.0
    assert longest <= most, f"expected no hold longer than merge.max_hold and a second, {most} s, found {longest:.2f} s"


if __name__ == "__main__":
    main()
