"""The table of metrics follows Prometheus' rules, and what it shows of a model is the model's."""

import math
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import Counter, Gauge
from support.clock import Clock
from support.records import DECODER, SETTINGS, TOPIC, good, new_model, stream

from stream_apple.learners.apple.kernels.mixture import SHARED
from stream_apple.learners.apple.learner import as_apple
from stream_apple.learners.port import Change
from stream_apple.learners.progress.progressive_loss import PREDICTORS, LossReport
from stream_apple.monitoring.definitions import METRICS, QUALITIES
from stream_apple.monitoring.metric import PREFIX
from stream_apple.monitoring.metrics import MOST_REFRESHED, Metrics
from stream_apple.monitoring.partition_metrics import PartitionMetrics
from stream_apple.stream.model.partition_model import BatchResult, EpochEnd, PartitionModel
from stream_apple.stream.model.time_budget import Phase, TimeBudget
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.partitions.state import RecoveryLeft, State

RECORDS = stream(3000, seed=1)
PLAIN: dict[str, Any] = {"mixture": False, "drift": None}


def shown(metrics: Metrics, model: PartitionModel) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Everything exported after an iteration of the loop with this one partition, given to it and taken again."""
    partition = Partition(model, RecoveryPlan(model.lineage, 0))
    partition.sent_offset = model.next_offset
    partition.enter(State.LIVE)
    metrics.entered(partition, State.LIVE)
    metrics.saved(partition, 1234, 0.5)
    metrics.counted_monomials(partition, model.learner.census())
    partition.saved_at_ms = 1500
    metrics.iterated(TimeBudget(Phase), {partition.number: partition}, lambda _: 17, lambda _: RecoveryLeft(5, 2.5))
    samples = {
        (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
    }
    metrics.entered(partition, State.REVOKED)
    return samples


def test_names_follow_the_rules() -> None:
    """Counters end in _total and nothing else does; every metric says what it is; names are unique."""
    assert len({row.name for row in METRICS}) == len(METRICS)
    for row in METRICS:
        assert (row.kind is Counter) == row.name.endswith("_total")
        assert row.help.endswith(".")
        assert row.name == row.name.lower()


def test_a_model_that_comes_to_us_is_shown_whole() -> None:
    """Losses, lag, and the parents and monomials found in an earlier life: nothing waits for the next epoch."""
    model = new_model()
    model.process(RECORDS)
    samples = shown(Metrics(), model)
    own = ("partition", str(model.partition))
    progress = model.learner.progress
    assert samples["progressive_loss", frozenset({own, ("span", "start")})] == progress.report("whole").loss
    assert (
        samples["linear_progressive_loss", frozenset({own, ("span", "start")})] == progress.report("whole").linear_loss
    )
    assert (
        samples["best_constant_loss", frozenset({own, ("span", "start")})]
        == progress.report("whole").best_constant_loss
    )
    assert samples["lag_records", frozenset({own})] == 17
    assert samples["learned_examples", frozenset({own})] == model.learner.examples > 0
    for name, counts in model.learner.census()._asdict().items():
        found = [samples[name, frozenset({own, ("degree", str(degree))})] for degree in range(len(counts))]
        assert found == counts.tolist()
        assert sum(found) > 1
    gauges = model.learner.describe().gauges
    assert samples["table_occupied_slots", frozenset({own})] == gauges["table_occupied_slots"] > 1
    assert samples["learner_value", frozenset({own, ("name", "constant_weight")})] == gauges["constant_weight"] != 0


def test_auc_and_calibration_are_shown_of_two_labels() -> None:
    """Of the published predictions, of apple and of linear; nothing before there are two labels."""
    model = new_model()
    model.process([good(at, 1.0) for at in range(10)])
    assert not [name for name, _ in shown(Metrics(), model) if name in QUALITIES]
    model.process([good(at, at % 2) for at in range(10, 30)])
    samples = shown(Metrics(), model)
    for predictor in PREDICTORS:
        labels = frozenset({("partition", str(model.partition)), ("predictor", predictor), ("span", "start")})
        report = model.learner.progress.quality("whole")[predictor]
        assert samples["auc", labels] == report.auc >= 0.0
        assert samples["calibration_error", labels] == report.calibration_error > 0.0
    # No epoch has ended: three spans.
    assert len([name for name, _ in samples if name in QUALITIES]) == 3 * len(PREDICTORS) * len(QUALITIES)


def test_a_third_label_ends_auc_where_it_was_shown() -> None:
    """A number that is no longer true must not stay; and another life of the partition begins without."""
    model = new_model()
    owned = PartitionMetrics(Metrics()._all, model.partition)
    model.process([good(at, at % 2) for at in range(10)])
    owned._show_learner(model.learner)
    assert owned.facts()["quality"]["start"]["published"]["auc"] >= 0.0
    model.process([good(10, 5.0)])
    owned._show_learner(model.learner)
    assert math.isnan(owned.facts()["quality"]["start"]["published"]["auc"])
    owned.remove()
    assert owned.facts()["quality"] == {}


def test_the_mixture_is_shown_with_the_losses_of_its_parts() -> None:
    """Weights and shares are the learner's, apple's loss is that of its scores; a plain learner has none of them."""
    model = new_model()
    model.process(RECORDS)
    samples = shown(Metrics(), model)
    own = ("partition", str(model.partition))
    learner = model.learner
    for name, names, values in (
        ("mixture_weight", as_apple(learner).predictors, as_apple(learner).mixture_weights().tolist()),
        ("mixture_share", SHARED, [*as_apple(learner).mixture_shares().values()]),
    ):
        found = [samples[name, frozenset({own, ("predictor", predictor)})] for predictor in names]
        assert found == values
    assert sum(found) == pytest.approx(1.0)
    losses = {
        name: samples[name, frozenset({own, ("span", "start")})]
        for name in ("progressive_loss", "expanded_progressive_loss", "linear_progressive_loss")
    }
    assert len(set(losses.values())) == len(losses)
    assert losses["expanded_progressive_loss"] == learner.progress.report("whole").expanded_loss
    plain = SETTINGS._replace(options=replace(SETTINGS.options, **PLAIN))
    unmixed = PartitionModel(TOPIC, 0, model.lineage, plain, DECODER)
    unmixed.process(RECORDS)
    exported = {name for name, _ in shown(Metrics(), unmixed)}
    assert not exported & {"mixture_weight", "mixture_share", "expanded_progressive_loss"}
    assert "progressive_loss" in exported


def test_parents_that_come_and_go_are_counted() -> None:
    """Each end of an epoch in a batch counts, not the last alone."""
    metrics = PartitionMetrics(Metrics()._all, 0)
    census = new_model().learner.census()
    ends = [EpochEnd(number, number, Change(5, 2, census), "f" * 32, LossReport(*[0.5] * 6)) for number in range(3)]
    metrics.processed(BatchResult([], [], [], [], ends, 0, 0, 0, 0, {}))
    assert metrics.facts()["parent_changes"] == {"added": 15.0, "retired": 6.0}


def test_how_safe_a_model_is() -> None:
    """Its newest snapshot, what a successor would replay, the digest of its last epoch, and what recovery has left."""
    model = new_model()
    model.process(RECORDS)
    samples = shown(Metrics(), model)
    own = ("partition", str(model.partition))
    digest = frozenset({own, ("epoch", str(model.ended.epoch)), ("digest", model.ended.digest)})
    assert samples["epoch_digest_info", digest] == 1
    assert len([name for name, _ in samples if name == "epoch_digest_info"]) == 1
    for name, value in (
        ("snapshot_bytes", 1234),
        ("snapshot_timestamp_seconds", 1.5),
        ("unsaved_records", RECORDS[-1].at + 1),
        ("recovery_records_left", 5),
        ("recovery_seconds_left", 2.5),
        ("gap_records", 0),
    ):
        assert samples[name, frozenset({own})] == value


def test_a_partition_that_goes_takes_its_gauges_along() -> None:
    """Another worker shows them now: two that claim the same partition would add up."""
    metrics, model = Metrics(), new_model()
    shown(metrics, model)
    gauges = {PREFIX + row.name for row in METRICS if row.kind is Gauge and "partition" in row.labels}
    left = [sample for family in metrics.registry.collect() for sample in family.samples if sample.name in gauges]
    assert left == []


def test_many_partitions_are_refreshed_in_turns() -> None:
    """A bounded number each second, all of them in their turn, whichever come and go meanwhile."""
    clock = Clock(0.0)
    metrics = Metrics(clock)
    asked: list[int] = []
    owned = {number: Partition(new_model(number), RecoveryPlan(new_model().lineage, 0)) for number in range(100)}

    def second(partitions: dict[int, Partition]) -> list[int]:
        """Which partitions were refreshed in it."""
        asked.clear()

        def backlog(number: int) -> int:
            asked.append(number)
            return 3

        for _ in range(4):
            clock.now += 0.25
            metrics.iterated(TimeBudget(Phase), partitions, backlog, lambda _: RecoveryLeft(0, 0.0))
        return list(asked)

    for partition in owned.values():
        partition.enter(State.LIVE)
        metrics.entered(partition, State.LIVE)
    assert second(owned) == list(range(MOST_REFRESHED))
    left = {number: partition for number, partition in owned.items() if number != 70}
    assert second(left) == [number for number in range(MOST_REFRESHED, 100) if number != 70]
    assert second(left) == list(range(MOST_REFRESHED))


def test_a_fault_of_a_topic_is_there_while_it_lasts() -> None:
    """Its series disappears when the fault does, so that an alert ends."""
    metrics = Metrics()

    def seconds(topic: str, fault: str) -> float | None:
        return metrics.registry.get_sample_value(f"{PREFIX}topic_fault_seconds", {"topic": topic, "fault": fault})

    replicas, policy = ("predictions", "NOT_ENOUGH_REPLICAS"), ("models", "INVALID_CONFIG")
    metrics.show_topic_faults({replicas: 0.0, policy: 4.0})
    assert (seconds(*replicas), seconds(*policy)) == (0.0, 4.0)
    metrics.show_topic_faults({policy: 8.0})
    assert (seconds(*replicas), seconds(*policy)) == (None, 8.0)
    metrics.show_topic_faults({})
    assert seconds(*policy) is None
