"""The table of metrics follows Prometheus' rules, and what it shows of a model is the model's."""

from prometheus_client import Counter, Gauge
from runtime.records import new_model, stream

from stream_apple.runtime.catalogue import METRICS, PREFIX
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.partition import Partition, State
from stream_apple.runtime.phases import TimeBudget
from stream_apple.runtime.recovering import Left
from stream_apple.runtime.recovery import Found
from stream_apple.runtime.step import PartitionModel

RECORDS = stream(3000, seed=1)


def shown(metrics: Metrics, model: PartitionModel) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Everything exported after the loop has turned with this one partition, given to it and taken again."""
    partition = Partition(Found(model, None, restore=False, jump=None))
    partition.enter(State.LIVE)
    metrics.entered(partition, State.LIVE)
    metrics.saved(partition, 1234, 0.5)
    partition.saved_at_ms = 1500
    metrics.turned(TimeBudget(), {partition.number: partition}, lambda _: 17, lambda _: Left(5, 2.5))
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
    assert samples["progressive_loss", frozenset({own, ("span", "start")})] == progress.progressive_loss
    assert samples["linear_progressive_loss", frozenset({own, ("span", "start")})] == progress.linear_progressive_loss
    assert samples["best_constant_loss", frozenset({own, ("span", "start")})] == progress.best_constant_loss
    assert samples["lag_records", frozenset({own})] == 17
    assert samples["learned_examples", frozenset({own})] == model.learner.examples > 0
    for name, counts in (
        ("parents", model.learner.parents_by_degree()),
        ("monomials", model.learner.monomials_by_degree()),
    ):
        found = [samples[name, frozenset({own, ("degree", str(degree))})] for degree in range(len(counts))]
        assert found == counts.tolist()
        assert sum(found) > 1


def test_how_safe_a_model_is() -> None:
    """Its newest snapshot, what a successor would replay, the digest of its last epoch, and what recovery has left."""
    model = new_model()
    model.process(RECORDS)
    samples = shown(Metrics(), model)
    own = ("partition", str(model.partition))
    digest = frozenset({own, ("epoch", str(model.ended_epoch)), ("digest", model.epoch_digest)})
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
