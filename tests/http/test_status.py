"""What /status says: the numbers that /metrics has, grouped for people, and nothing else."""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from support.clock import Clock
from support.null_watchers import find_no_names
from support.planted_pair import PAIR, SETTINGS, finder, planted
from support.records import DECODER, good

from stream_apple.http.status import Status
from stream_apple.monitoring.definitions import MEANS, METRICS, QUALITIES
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.metric import BY_PARTITION, PREFIX
from stream_apple.monitoring.metrics import Metrics
from stream_apple.monitoring.name_search import Wanted
from stream_apple.monitoring.observer import WorkerObserver
from stream_apple.records.message.feature_names import Names
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.model.dead_letters import Reject
from stream_apple.stream.model.partition_model import BatchResult, PartitionModel
from stream_apple.stream.model.time_budget import Phase, TimeBudget
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.partitions.state import RecoveryLeft, State
from stream_apple.stream.positions.lineage import Lineage

MODEL, NAMES = finder(planted(800))
KEYS = [
    "at_ms", "began_ms", "about", "live", "ready", "epoch_length_s", "brokers_reachable", "partitions", "merging",
    "loop_seconds", "model_seconds", "transactions", "rebalances", "dead_letters", "findings", "config", "history",
]  # fmt: skip


def empty_model(partition: int) -> PartitionModel:
    """A model that has learned nothing."""
    return PartitionModel("examples", partition, Lineage(0, "f" * 16), SETTINGS, DECODER)


class Worker:
    """A worker's metrics, and what it says at /status."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.owned: dict[int, Partition] = {}
        watch = WorkerObserver(NAMES)
        watch.follow(lambda: self.owned)
        self._status = Status(
            watch, self.metrics, Health(), {"worker": {"id": "w"}}, find_no_names, Clock(0.0, tick=100.0)
        )

    def take(self, model: PartitionModel, state: State) -> Partition:
        """The group gives the worker a partition."""
        partition = Partition(model, RecoveryPlan(model.lineage, 0))
        partition.enter(state)
        self.owned[partition.number] = partition
        self.metrics.entered(partition, state)
        return partition

    def give_back(self, number: int) -> None:
        """The group takes it away."""
        self.metrics.entered(self.owned.pop(number), State.REVOKED)

    def turn(self, budget: TimeBudget[Phase] | None = None) -> None:
        """An iteration is over, and the gauges are written."""
        self.metrics._refresh_at = 0.0
        self.metrics.iterated(
            budget or TimeBudget(Phase), self.owned, lambda _: 12, lambda _: RecoveryLeft(5, math.nan)
        )

    def facts(self) -> dict[str, Any]:
        """What /status says, without what another test is about."""
        return self._status.status()


def regrouped(metrics: Metrics) -> dict[str, Any]:
    """The parts of /status that are metrics, read from the text that Prometheus gets."""
    series: dict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            value = sample.value if math.isfinite(sample.value) else None
            series[sample.name.removeprefix(PREFIX)].append((sample.labels, value))  # type: ignore[arg-type]

    def by(name: str, label: str) -> dict[str, float]:
        return {labels[label]: value for labels, value in series[name]}

    parts = {}
    for labels, value in series["partition_state"]:
        if value:
            own = labels["partition"]

            def mine(name: str, own: str = own) -> list[tuple[dict[str, str], float]]:
                return [(labels, value) for labels, value in series[name] if labels["partition"] == own]

            spans = {labels["span"] for labels, _ in mine("progressive_loss")}
            digests = [labels for labels, _ in mine("epoch_digest_info")]
            quality: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
            for name in QUALITIES:
                for found, measured in mine(name):
                    quality[found["span"]][found["predictor"]][name] = measured
            asked: dict[str, dict[str, float]] = defaultdict(dict)
            for found, loss in mine("asked_loss"):
                asked[found["span"]][found["predictor"]] = loss
            parts[int(own)] = {
                "partition": int(own),
                "state": labels["state"],
                "losses": {
                    span: {name: value for name in MEANS for found, value in mine(name) if found["span"] == span}
                    for span in spans
                },
                "quality": quality,
                "mixture": {
                    "weights": {labels["predictor"]: value for labels, value in mine("mixture_weight")},
                    "shares": {labels["predictor"]: value for labels, value in mine("mixture_share")},
                },
                "parent_changes": {labels["change"]: value for labels, value in mine("parent_changes_total")},
                "examples": {labels["outcome"]: value for labels, value in mine("examples_total")},
                "asked": {
                    "examples": {labels["outcome"]: value for labels, value in mine("asked_examples")},
                    "losses": asked,
                },
                "parents": {labels["degree"]: value for labels, value in mine("parents")},
                "monomials": {labels["degree"]: value for labels, value in mine("monomials")},
                "learner_values": {labels["name"]: value for labels, value in mine("learner_value")},
                "digest": {"epoch": digests[0]["epoch"], "digest": digests[0]["digest"]} if digests else None,
                **{row.name: value for row in METRICS if row.labels == BY_PARTITION for _, value in mine(row.name)},
            }
    reasons: dict[str, int] = defaultdict(int)
    for labels, value in series["dead_letters_total"]:
        reasons[labels["reason"]] += int(value)
    return {
        "epoch_length_s": series["epoch_length_seconds"][0][1],
        "brokers_reachable": series["brokers_reachable"][0][1],
        "partitions": [parts[number] for number in sorted(parts)],
        "loop_seconds": by("loop_seconds_total", "phase"),
        "model_seconds": by("model_seconds_total", "step"),
        "transactions": by("transactions_total", "result"),
        "rebalances": by("rebalances_total", "event"),
        "dead_letters": {reason: count for reason, count in reasons.items() if count},
        "about": {
            **dict.fromkeys(("group", "worker", "topic", "method", "loss"), ""),
            **next((labels for labels, _ in series["worker_info"]), {}),
            **series["build_info"][0][0],
        },
    }


def check(worker: Worker) -> dict[str, Any]:
    """What /status says, if it is what /metrics says."""
    facts = worker.facts()
    assert list(facts) == KEYS
    told = {name: facts[name] for name in KEYS if name in {*regrouped(worker.metrics)}}
    told["dead_letters"] = facts["dead_letters"]["by_reason"]
    told["about"] = {name: facts["about"][name] for name in facts["about"] if name not in {"python", "names_known"}}
    assert told == regrouped(worker.metrics)
    return facts


def rejected(number: int, reason: Reason) -> BatchResult:
    """A batch of which one record was of no use, and some were."""
    return BatchResult([], [], [], [Reject(good(0), reason, "found")], [], 3, 1, number, 0, {})


def test_a_worker_that_has_just_begun() -> None:
    """No partition, and every counter that will be is there."""
    facts = check(Worker())
    assert facts["partitions"] == []
    assert set(facts["transactions"]) == {"committed", "aborted"}
    assert set(facts["rebalances"]) == {"assigned", "revoked", "lost"}
    assert (facts["epoch_length_s"], facts["brokers_reachable"]) == (0.0, 0.0)


def test_a_worker_with_partitions_in_several_states() -> None:
    """A live one, one being restored, and one that has learned nothing: each shows what it has."""
    worker = Worker()
    about = {"group": "g", "worker": "w", "topic": "t", "method": "apple", "loss": "squared"}
    worker.metrics.describe(about, 300.0, 60.0, 2)
    worker.metrics.watch_brokers(lambda: True)
    live = worker.take(MODEL, State.LIVE)
    worker.take(empty_model(1), State.RESTORING)
    worker.take(empty_model(10), State.REPLAYING)
    check(worker)
    live.saved_at_ms = 1500
    worker.metrics.saved(live, 1234, 0.5)
    worker.turn()
    worker.metrics.processed(live, rejected(7, Reason.MALFORMED))
    worker.metrics.committed(0.1)
    worker.metrics.aborted()
    worker.metrics.rebalanced("assigned")
    facts = check(worker)
    assert [(part["partition"], part["state"]) for part in facts["partitions"]] == [
        (0, "live"), (1, "restoring"), (10, "replaying"),
    ]  # fmt: skip
    first, second, third = facts["partitions"]
    assert first["snapshot_bytes"] == 1234
    assert first["digest"]["digest"] == MODEL.ended.digest
    assert first["examples"] == {"learned": 3, "unlabelled": 1, "rejected": 1, "replayed": 7}
    assert "learned_examples" not in second
    assert third["losses"]["recent"]["progressive_loss"] is None
    assert facts["brokers_reachable"] == 1


def test_a_partition_that_comes_back() -> None:
    """Its gauges begin anew; its counters are this process's, and have gone on."""
    worker = Worker()
    live = worker.take(MODEL, State.LIVE)
    worker.turn()
    worker.metrics.processed(live, rejected(0, Reason.MALFORMED))
    worker.give_back(0)
    facts = check(worker)
    assert facts["partitions"] == []
    assert facts["dead_letters"]["by_reason"] == {"malformed": 1}
    returned = worker.take(empty_model(0), State.RESTORING)
    facts = check(worker)
    assert facts["partitions"][0]["digest"] is None
    assert "lag_records" not in facts["partitions"][0]
    worker.metrics.processed(returned, rejected(0, Reason.MALFORMED))
    assert check(worker)["partitions"][0]["examples"]["learned"] == 6
    worker.metrics.entered(returned, State.LIVE)
    returned.enter(State.LIVE)
    worker.turn()
    assert check(worker)["partitions"][0]["state"] == "live"


def test_where_the_time_of_the_loop_went() -> None:
    """Every phase is there from the start, and grows with the budget."""
    worker, budget = Worker(), TimeBudget(Phase)
    worker.turn(budget)
    for phase in budget.seconds:
        budget.seconds[phase] += 1.25
    worker.turn(budget)
    assert set(check(worker)["loop_seconds"].values()) == {1.25}


class TestNames:
    """A model whose features nobody has seen by name, as after a restart."""

    @staticmethod
    def status(look: Callable[[Wanted], bool]) -> tuple[Status, WorkerObserver]:
        """Of a worker with one whole model."""
        partition = Partition(MODEL, RecoveryPlan(MODEL.lineage, 0))
        partition.enter(State.LIVE)
        watch = WorkerObserver(Names())
        watch.follow(lambda: {0: partition})
        return Status(watch, Metrics(), Health(), {}, look, Clock(0.0)), watch

    def test_the_first_answer_has_names(self) -> None:
        """They are looked for before it is given; then there is nothing more to look for."""
        asked: list[Wanted] = []

        def look(wanted: Wanted) -> bool:
            asked.append(wanted)
            watch.names.add(NAMES.known().items())
            return True

        status, watch = self.status(look)
        for _ in range(2):
            found = status.model(0, 20)
            assert found["named"] == 1.0
            assert found["top"][0]["name"] == PAIR
        (wanted,) = asked
        assert (wanted.partition, wanted.before) == (0, 800)
        assert wanted.keys <= NAMES.known().keys()

    def test_what_is_not_found_is_told_by_its_key(self) -> None:
        """The view is the one that there was: it is made again only when a search has ended."""
        status, watch = self.status(find_no_names)
        found = status.model(0, 20)
        assert found["named"] == 0.0
        watch.names.add(NAMES.known().items())
        assert status.model(0, 20) == found
