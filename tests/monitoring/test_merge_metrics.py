"""What is counted of merging, what becomes of it with a partition, and that there is nothing of it where it is off."""

from typing import Any

import pytest
from prometheus_client import Counter, Gauge
from prometheus_client.exposition import generate_latest
from simulation.small import small
from stream.learning.late_threads import OwnThread
from stream.merging.cluster_of_rounds import SETUP, cluster_of, finish, new_process
from stream.merging.lockstep import hourly
from support.clock import Clock
from support.merges import summary_of
from support.null_watchers import NullObserver
from support.records import HOUR, START

from stream_apple.app.worker import assemble
from stream_apple.config import Config
from stream_apple.monitoring.definitions import METRICS
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.merge_metrics import MERGE_METRICS, MergeMetrics
from stream_apple.monitoring.metric import PREFIX
from stream_apple.monitoring.metrics import Metrics
from stream_apple.stream.loop.loop import Loop
from stream_apple.stream.loop.watchers import Watchers
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState
from stream_apple.stream.snapshots.merge_history import MergeHistory
from stream_apple.stream.snapshots.merge_messages import Exclusion, MergeManifest, RosterEntry

EPOCH = START // HOUR


class World:
    """Metrics of a worker that merges, and its clock."""

    def __init__(self) -> None:
        self.clock = Clock(100.0)
        self.registry = Metrics().registry
        self.metrics = MergeMetrics(self.registry, self.clock)

    def shown(self) -> dict[str, dict[str, float]]:
        """Series without the prefix -> the value of its one label, or nothing -> value."""
        found: dict[str, dict[str, float]] = {}
        for family in self.registry.collect():
            for sample in family.samples:
                name = sample.name.removeprefix(PREFIX)
                if name.startswith("merge") and not name.endswith("_bucket"):
                    found.setdefault(name, {})["".join(sample.labels.values())] = sample.value
        return found

    def merges(self, roster: tuple[int, ...], excluded: dict[int, str]) -> None:
        """The leader here has merged."""
        self.metrics.merged(*summary_of(5, roster, excluded))


def test_names_follow_the_rules() -> None:
    """Counters end in _total and nothing else does; every metric says what it is; none has the name of another."""
    names = [row.name for row in (*METRICS, *MERGE_METRICS)]
    assert len(set(names)) == len(names)
    for row in MERGE_METRICS:
        assert (row.kind is Counter) == row.name.endswith("_total")
        assert row.help.endswith(".")
        assert len(row.labels) <= 1


def test_where_nothing_is_merged_nothing_is_said_of_it() -> None:
    """The families are those of a worker that knows no merging."""
    metrics = Metrics()
    assert "merge" not in generate_latest(metrics.registry).decode()
    assert metrics.facts()["merging"] is None


@pytest.mark.parametrize("mode", ["off", "average"])
def test_the_worker_s_registry_has_them_if_models_are_merged(mode: str) -> None:
    """As the worker is put together; with them come the facts of its page."""
    cluster = cluster_of({0: hourly(0, [5])})
    process = new_process(cluster)
    config = Config.model_validate(
        {"kafka": {"bootstrap.servers": "nowhere:1"}, "worker": {"group": "g", "threads": 1}, "merge": {"mode": mode}}
    )
    metrics, model = Metrics(), lambda *_: pytest.fail("no model is needed")
    assemble(config, process.broker, model, metrics, Health(), NullObserver())
    families = {family.name for family in metrics.registry.collect()}
    ours = {PREFIX + row.name.removesuffix("_total") for row in MERGE_METRICS}
    assert families & ours == (ours if mode == "average" else set())
    assert (metrics.facts()["merging"] is not None) == (mode == "average")


def test_series_that_are_counted_exist_from_the_start() -> None:
    """Else the first increase would be unseen; nothing is said of partitions."""
    shown = World().shown()
    assert shown["merges_total"] == {"adopted": 0, "late": 0, "skipped": 0}
    assert shown["merge_excluded_total"] == {"late": 0, "idle": 0, "passed": 0, "displaced": 0}
    assert shown["merge_bytes_total"] == {"read": 0, "written": 0}
    for row in MERGE_METRICS:
        if row.kind is Gauge and row.labels:
            assert row.name not in shown


def test_a_partition_at_its_boundaries() -> None:
    """It is held, and goes on; how often in a row alone is told until it adopts again."""
    world = World()
    metrics = world.metrics
    for number, outcome in enumerate(("skipped", "skipped", "late", "adopted", "skipped")):
        metrics.held(3, number)
        assert world.shown()["merge_held"] == {"3": 1}
        assert world.shown()["merge_round"] == {"3": number}
        world.clock.now += 2.0
        assert metrics.facts()["partitions"]["3"] == {
            "round": number, "state": "held", "held_s": 2.0, "skipped": (0, 1, 2, 0, 0)[number],
        }  # fmt: skip
        metrics.went_on(3, outcome, 2.0)
        world.clock.now += 9.0
        shown = world.shown()
        assert shown["merge_held"] == {"3": 0}
        assert shown["merge_skipped_rounds"] == {"3": (1, 2, 0, 0, 1)[number]}
        assert metrics.facts()["partitions"]["3"]["state"] == outcome
        assert metrics.facts()["partitions"]["3"]["held_s"] == 2.0
    assert shown["merges_total"] == {"adopted": 1, "late": 1, "skipped": 3}
    assert shown["merge_hold_seconds_count"] == {"": 5}
    assert shown["merge_hold_seconds_sum"] == {"": 10.0}
    assert metrics.facts()["outcomes"] == {"adopted": 1, "late": 1, "skipped": 3}


@pytest.mark.parametrize(
    ("note", "state", "skipped"),
    [
        (BoundaryNote(7, 10, BoundaryState.ADOPTED), "adopted", 0),
        (BoundaryNote(7, 10, BoundaryState.SKIPPED), "skipped", 1),
        (BoundaryNote(7, 10, BoundaryState.CONTRIBUTED), None, 0),
    ],
)
def test_a_partition_that_comes_brings_its_newest_round(note: BoundaryNote, state: str | None, skipped: int) -> None:
    """From what is noted beside its offset; nothing before the first. When it goes, nothing is left of it."""
    world = World()
    world.metrics.noted(1, None)
    assert world.metrics.facts()["partitions"] == {}
    world.metrics.noted(1, note)
    world.metrics.noted(2, note)
    assert world.metrics.facts()["partitions"]["1"] == {"round": 7, "state": state, "held_s": None, "skipped": skipped}
    assert world.shown()["merge_round"] == {"1": 7, "2": 7}
    world.metrics.dropped([1])
    shown = world.shown()
    assert [shown[name] for name in ("merge_round", "merge_held", "merge_skipped_rounds")] == [
        {"2": 7}, {"2": 0}, {"2": skipped},
    ]  # fmt: skip
    assert list(world.metrics.facts()["partitions"]) == ["2"]


def test_merges_of_this_worker() -> None:
    """Who was in them, who was not, and for how many in a row: idle partitions miss nothing."""
    world = World()
    world.merges((0, 1), {2: "late", 3: "idle"})
    world.merges((0, 1), {2: "displaced", 3: "idle"})
    world.merges((0,), {1: "passed", 2: "late", 3: "late"})
    shown = world.shown()
    assert shown["merge_roster_partitions"] == {"": 1}
    assert shown["merge_missed_rounds"] == {"0": 0, "1": 1, "2": 3, "3": 1}
    assert shown["merge_excluded_total"] == {"late": 3, "idle": 2, "passed": 1, "displaced": 1}
    assert shown["merge_bytes_total"] == {"read": 3000, "written": 900}
    assert shown["merge_lost_parents_total"] == {"": 6}
    assert shown["merge_seconds_count"] == {"": 3}
    newest = {"round": 5, "roster": [0], "excluded": {"1": "passed", "2": "late", "3": "late"}}
    assert world.metrics.facts()["newest"] == newest
    world.merges((0, 1, 2, 3), {})
    assert set(world.shown()["merge_missed_rounds"].values()) == {0}


def test_who_leads_no_more_says_nothing_of_others() -> None:
    """What was said of all partitions goes with partition 0, and only with it."""
    world = World()
    world.merges((0, 1), {2: "late"})
    world.metrics.dropped([1])
    assert world.shown()["merge_missed_rounds"] == {"0": 0, "1": 0, "2": 1}
    world.metrics.dropped([0])
    assert "merge_missed_rounds" not in world.shown()
    world.merges((0, 1), {2: "late"})
    assert world.shown()["merge_missed_rounds"] == {"0": 0, "1": 0, "2": 1}


def test_the_merge_of_another_worker() -> None:
    """Whoever has adopted it can say who is in it; it counts as no merge of this worker."""
    world = World()
    roster = (RosterEntry(0, 9, 1, 2, "d"), RosterEntry(2, 9, 1, 2, "e"))
    manifest = MergeManifest(8, 3, roster, (Exclusion(1, "late"),), "f", {}, MergeHistory())
    world.metrics.saw(manifest)
    assert world.metrics.facts()["newest"] == {"round": 8, "roster": [0, 2], "excluded": {"1": "late"}}
    assert world.shown()["merge_seconds_count"] == {"": 0}


def test_a_real_loop_tells_all_of_it() -> None:
    """Two partitions through two rounds: held twice, adopted twice, merged twice; all of it goes with them."""
    given = {0: hourly(0, [5, 5, 5]), 1: hourly(1, [5, 5, 5])}
    cluster = cluster_of(given)
    process = new_process(cluster)
    metrics = Metrics()
    recorder = MergeMetrics(metrics.registry)
    told: list[dict[str, Any]] = []
    text = ""
    context = MergingContext(
        process.broker,
        SETUP.provenance,
        SETUP.settings.options,
        process.bystander,
        recorder,
        Clock(0.0, 0.01),
    )
    watchers = Watchers(process.metrics, process.health, NullObserver())
    process.loop = Loop(process.broker, process.owned, SETUP.loop, watchers, OwnThread(), context, Clock(0.0, 0.01))
    step = process.loop.iterate

    def iterate() -> None:
        nonlocal text
        step()
        told.append(recorder.facts())
        text = generate_latest(metrics.registry).decode()

    process.loop.iterate = iterate  # type: ignore[method-assign]
    with small(block_bytes=16_000):
        finish(cluster, process)
    states = {each["state"] for facts in told for each in facts["partitions"].values()}
    assert states == {"held", "adopted"}
    last = told[-1]
    assert last["outcomes"] == {"adopted": 4, "late": 0, "skipped": 0}
    assert last["newest"] == {"round": EPOCH + 1, "roster": [0, 1], "excluded": {}}
    assert {each["round"] for each in last["partitions"].values()} == {EPOCH + 1}
    assert f"{PREFIX}merge_hold_seconds_count 4.0" in text
    assert f"{PREFIX}merge_seconds_count 2.0" in text
    assert f'{PREFIX}merge_round{{partition="1"}}' in text
    assert f'{PREFIX}merge_round{{partition="1"}}' not in generate_latest(metrics.registry).decode()
    assert recorder.facts()["partitions"] == {}
