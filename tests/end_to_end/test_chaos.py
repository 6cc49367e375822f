"""Kill, freeze, fence, starve: workers and broker die for minutes, and readers of committed data can't tell."""

import itertools
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from end_to_end.chaos_feed import BAD_SHARE, Flood
from end_to_end.lockstep import adoptions_of, check_lockstep
from end_to_end.supervisor import SESSION_S, Fate, Supervisor, live
from support.command import call_command
from support.independent_checker import Names, check_independently
from support.kafka.broker import Broker
from support.topics import FOREVER, LogEnds, create_worker_topics, named_topics, read_to_end
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.app.model_factories import settings_of
from stream_apple.config import load
from stream_apple.errors import FencedError
from stream_apple.stream.model.warmup import warm_up
from stream_apple.stream.positions.merge_note import BoundaryState

GROUP = "chaos"
PARTITIONS = 4
NAMES = ["worker-0", "worker-1", "worker-2"]
SEED = 2014
TOLD = (
    "started",
    "restored",
    "replaying",
    "live",
    "revoked",
    "lost",
    "transaction_aborted",
    "epoch_ended",
    "snapshot_written",
)


class Plan(NamedTuple):
    """How much of everything; `rate` in examples a second. `merging`: partitions wait for all others, for ever.

    The broker dies, too, `deaths` times.
    What must have happened, at least: models restored and replayed, epochs ended, snapshots written.
    """

    kills: int
    deaths: int
    examples: int
    rate: float
    deadline_s: float
    merging: bool = False
    restored: int = 10
    replayed: int = 10
    epochs: int = 100
    snapshots: int = 30


@pytest.fixture
def broker(jars: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker that this test may kill, with all topics."""
    broker = Broker(tmp_path / "kafka", jars)
    broker.start()
    try:
        # Two partitions share one of dead letters.
        create = named_topics(broker.bootstrap)
        create_worker_topics(create, PARTITIONS, PARTITIONS // 2)
        create("merges", 1, FOREVER)
        yield broker
    finally:
        broker.kill()


class Watcher:
    """Looks at the logs from outside."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
        self.ends = LogEnds(bootstrap)

    def committed(self) -> list[int]:
        """The group's committed offset in each partition."""
        asked = [TopicPartition("examples", number) for number in range(PARTITIONS)]
        return [found.offset for found in self._consumer.committed(asked, timeout=DEADLINE_S)]

    def aborted(self) -> int:
        """How many predictions and dead letters readers of committed data do not see."""
        every, committed = (
            sum(
                len(found)
                for topic, partitions in (("predictions", PARTITIONS), ("dead-letters", PARTITIONS // 2))
                for found in read_to_end(self._bootstrap, topic, partitions, isolation).values()
            )
            for isolation in ("read_uncommitted", "read_committed")
        )
        return every - committed


def finish(supervisor: Supervisor, watcher: Watcher, deadline_s: float) -> None:
    """New workers answer what is left, and stop in order."""
    ends = [watcher.ends.of("examples", number) for number in range(PARTITIONS)]
    workers = {name: supervisor.start(name) for name in NAMES}

    def shares() -> list[list[int]]:
        return [live(worker) for worker in workers.values()]

    def all_answered() -> bool:
        for name, worker in workers.items():
            if not worker.running:
                supervisor.ended(worker)
                workers[name] = supervisor.start(name)
        settled = all(shares()) and sorted(itertools.chain(*shares())) == list(range(PARTITIONS))
        return settled and watcher.committed() == ends

    wait_until(all_answered, lambda: f"{watcher.committed()} of {ends}, {shares()}", deadline_s, pause_s=0.1)
    for worker in workers.values():
        assert worker.terminate() == 0, worker.tail()


def verify(config: Path) -> dict[str, Any]:
    """The report of `stream-apple verify`, which finds no fault."""
    done = call_command("verify", "--config", config, "--json")
    assert done.returncode == 0, f"verify ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def check_report(report: dict[str, Any], watcher: Watcher) -> None:
    """All that `verify` has found is as it must be."""
    partitions = report["partitions"]
    assert report["verified"]
    assert [found["partition"] for found in partitions] == list(range(PARTITIONS))
    for found in partitions:
        predictions, letters = found["predictions"], found["dead_letters"]
        assert found["origin"] == "start"
        assert found["stop"] == watcher.ends.of("examples", found["partition"])
        assert predictions["matched"] == predictions["expected"]
        assert letters["matched"] == letters["expected"]
        assert predictions["expected"] + letters["expected"] == found["records"] == found["stop"]
        mean = BAD_SHARE * found["records"]
        assert letters["expected"] == pytest.approx(mean, abs=5 * mean**0.5)  # how many records there are is by chance
        assert predictions["foreign"] == 0
        assert found["snapshot"]["at"] == found["stop"]
        assert found["relearned"] == found["snapshot"]["digest"]


class MergedRounds(NamedTuple):
    """How many there were, and for how long a partition was held at most, whoever had it meanwhile."""

    rounds: int
    longest_hold_s: float


def check_merged(config: Path, workers: list[WorkerProcess]) -> MergedRounds:
    """All that readers see is that of models in lockstep, and each partition went on once from each round's end."""
    settings = load(config, {})
    rounds = check_lockstep(settings, PARTITIONS).rounds
    adoptions = adoptions_of(settings)
    assert {each.state for each in adoptions} == {BoundaryState.ADOPTED}
    assert all(each.included for each in adoptions)
    places = Counter((each.partition, each.round) for each in adoptions)
    assert len(places) == len(adoptions) == rounds * PARTITIONS > 0
    contributed, adopted = moments(workers, "round_contributed"), moments(workers, "round_adopted")
    held = [
        (adopted[place][-1] - contributed[place][0]).total_seconds() for place in adopted.keys() & contributed.keys()
    ]
    return MergedRounds(rounds, max(held))


def moments(workers: list[WorkerProcess], name: str) -> dict[tuple[int, int], list[datetime]]:
    """(partition, round) -> when an event of this name was logged about it, by whichever worker."""
    found: dict[tuple[int, int], list[datetime]] = defaultdict(list)
    for worker in workers:
        for event in worker.history():
            if event.get("event") == name:
                place = event["partition"], event["round"]
                found[place].append(datetime.fromisoformat(event["timestamp"]))
    return {place: sorted(times) for place, times in found.items()}


def owners(workers: list[WorkerProcess]) -> list[set[str]]:
    """Who had each partition live."""
    found: list[set[str]] = [set() for _ in range(PARTITIONS)]
    for worker in workers:
        for event in worker.history():
            if event.get("event") == "live":
                found[event["partition"]].add(worker.name)
    return found


def told(workers: list[WorkerProcess]) -> Counter[str]:
    """How often each event was logged."""
    return Counter(str(event.get("event")) for worker in workers for event in worker.history())


def covered(plan: Plan, workers: list[WorkerProcess]) -> bool:
    """Whether the workers went through what this test is about: models moved, were restored, and lost in the middle."""
    events = told(workers)
    return (
        all(len(names) >= 2 for names in owners(workers))
        and events["restored"] >= plan.restored
        and events["replaying"] >= plan.replayed
        and events["lost"] + events["transaction_aborted"] >= 1
    )


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(
            Plan(4, 2, 20_000, 400, 600, restored=4, replayed=4, epochs=8, snapshots=8),
            id="4 kills",
            marks=pytest.mark.timeout(1_200),
        ),
        pytest.param(
            Plan(50, 3, 500_000, 3_500, 600), id="50 kills", marks=[pytest.mark.long, pytest.mark.timeout(1_800)]
        ),
        # Little is left to replay where models are saved at each round's end.
        pytest.param(
            Plan(50, 3, 200_000, 1_500, 900, merging=True, replayed=3, epochs=20),
            id="50 kills, merging",
            marks=[pytest.mark.long, pytest.mark.timeout(1_800)],
        ),
        pytest.param(
            Plan(500, 3, 5_000_000, 3_500, 3_000), id="500 kills", marks=[pytest.mark.long, pytest.mark.timeout(3_600)]
        ),
    ],
)
def test_whatever_dies_readers_can_not_tell(broker: Broker, tmp_path: Path, plan: Plan) -> None:
    """One prediction for each good record, one dead letter for each bad one, and the state of a clean run."""
    # Everything happens often: commits, snapshots, epochs with growth.
    config = write_config(
        tmp_path / "stream_apple.toml",
        broker.bootstrap,
        kafka={"session.timeout.ms": int(SESSION_S * 1000)},
        worker={"group": GROUP, "commit_interval": "100ms", "snapshot_interval": "1s", "fetch_records": 500},
        learner={"bits": 12},
        epochs={"length": "60s" if plan.merging else "20s"},
        merge={"mode": "average" if plan.merging else "off", "patience": "forever"},
        limits={"max_features": 20, "max_features_per_example": 64, "max_record_bytes": 2000},
    )
    # A worker that had to compile would be killed before it has learned anything.
    settings = settings_of(load(config, {}))
    warm_up(settings, settings.decoder())
    watcher = Watcher(broker.bootstrap)

    def enough(workers: list[WorkerProcess]) -> bool:
        return covered(plan, workers) and watcher.aborted() > 0

    supervisor = Supervisor(broker, config, tmp_path, NAMES, plan.kills, plan.deaths, SEED)
    began = time.monotonic()
    try:
        with Flood(broker.bootstrap, "examples", PARTITIONS, plan.rate, SEED) as flood:
            supervisor.run(enough, plan.deadline_s)
            chaos_s = time.monotonic() - began
            flood.finish(plan.examples)
        finish(supervisor, watcher, 240)
        finished_s = time.monotonic() - began
        if plan.merging:
            merged = check_merged(config, supervisor.workers)
            print(f"{merged.rounds} rounds merged; the longest hold was {merged.longest_hold_s:.1f} s")
        else:
            check_report(verify(config), watcher)
        check_independently(broker.bootstrap, Names("examples", "predictions", "dead-letters", GROUP))
        verified_s = time.monotonic() - began
    except BaseException:
        print(f"seed {SEED}; {dict(supervisor.done)}")
        for worker in supervisor.workers[-12:]:
            print(f"--- {worker.name}, exit code {worker.process.poll()}\n{worker.tail(1500)}")
        raise
    finally:
        supervisor.close()

    events, aborted = told(supervisor.workers), watcher.aborted()
    print(
        f"seed {SEED}; {chaos_s:.0f} s of chaos, all answered after {finished_s:.0f} s, verified at {verified_s:.0f} s"
    )
    print(f"{dict(supervisor.done)}; { {name: events[name] for name in TOLD} }; {aborted} aborted")

    # All is as it must be, after much that could have gone wrong.
    assert sum(watcher.ends.of("examples", number) for number in range(PARTITIONS)) >= plan.examples
    assert supervisor.done[Fate.KILLED] >= plan.kills
    assert supervisor.done[f"exit {-9}"] >= plan.kills
    assert min(supervisor.done[fate] for fate in Fate) >= 1
    assert supervisor.done["broker killed"] >= (plan.deaths + 1) // 2
    assert supervisor.done["broker stopped"] >= plan.deaths // 2
    assert supervisor.done[f"exit {FencedError.exit_code}"] >= 1
    assert covered(plan, supervisor.workers)
    assert aborted > 0
    assert events["epoch_ended"] >= plan.epochs
    assert events["snapshot_written"] >= plan.snapshots
