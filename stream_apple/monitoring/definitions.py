"""The table of all metrics: name, kind, help and labels. `metrics.py` keeps them up to date.

There are two kinds of numbers. Counters (`_total`) and histograms are about this process and start at zero with it.
Gauges with a partition are about its model; they survive a restart, because the model does. They disappear when the
partition goes to another worker, so that a sum over workers counts each partition once.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stream_apple.learners.port import GAUGES

PREFIX = "stream_apple_"


class Metric(NamedTuple):
    """One row of the table. The unit is the last word of the name, except for `_total`."""

    name: str
    kind: type[Counter] | type[Gauge] | type[Histogram]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def gauges(labels: tuple[str, ...], **helps: str) -> tuple[Metric, ...]:
    """Return gauges with these labels, given by name and help."""
    return tuple(Metric(name, Gauge, about, labels) for name, about in helps.items())


BY_PARTITION = ("partition",)
_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_MEANS = gauges(
    ("partition", "span"),
    progressive_loss=(
        "Mean loss of predictions made before learning: since the start, this epoch, last epoch, or recent."
    ),
    linear_progressive_loss="The same of the linear predictor that learns alongside.",
    best_constant_loss="Mean loss of the constant that is best in hindsight.",
    label_mean=(
        "Mean label of the examples learned; of logistic loss, the share of label 1; of softmax, of right answers."
    ),
    prediction_mean=(
        "Mean prediction for the same examples, before they were learned; of logistic and softmax, a probability."
    ),
    expanded_progressive_loss=(
        "The same of the expanded predictor, where what is published is a mixture that it is a part of."
    ),
)
MEANS = tuple(row.name for row in _MEANS)
"""In the order of the fields of a `LossReport`."""
_QUALITIES = gauges(
    ("partition", "predictor", "span"),
    auc="Share of pairs of a positive and a negative example that a predictor's scores put in the right order.",
    calibration_error=(
        "Mean distance of a predictor's probabilities from the share of positives among the examples so predicted."
    ),
)
QUALITIES = tuple(row.name for row in _QUALITIES)

MEMBER_METRICS = (
    Metric("build_info", Gauge, "1, with the version of this worker.", ("version", "model_format")),
    Metric("brokers_reachable", Gauge, "1, or 0 while no broker answers, or none has answered a call for 5 s."),
    Metric(
        "topic_fault_seconds",
        Gauge,
        "For how many seconds a topic has had a fault, by Kafka's name of the error; absent without one.",
        ("topic", "fault"),
    ),
    Metric("topic_partitions", Gauge, "Partitions of the examples topic, as this worker last counted them."),
    Metric(
        "schema_wait_seconds",
        Gauge,
        "For how long the partition has waited for a schema that the registry does not tell; 0 if it waits for none.",
        BY_PARTITION,
    ),
    Metric("dead_letters_total", Counter, "Records sent to the dead-letter topic.", ("partition", "reason")),
    Metric("transactions_total", Counter, "Transactions by how they ended: committed or aborted.", ("result",)),
    Metric("commit_seconds", Histogram, "Time to commit a transaction.", (), _SECONDS),
    Metric("loop_turns_total", Counter, "Turns of the loop."),
    Metric("rebalances_total", Counter, "Events of the consumer group: assigned, revoked, lost.", ("event",)),
    Metric("owned_partitions", Gauge, "Partitions that this worker owns."),
)
"""Those of every member of a group that writes transactions: of workers, and of joiners."""

METRICS = (
    *MEMBER_METRICS,
    Metric("worker_info", Gauge, "1, with what this worker is.", ("group", "worker", "topic", "method", "loss")),
    Metric("snapshot_interval_seconds", Gauge, "The setting worker.snapshot_interval."),
    Metric("epoch_length_seconds", Gauge, "The setting epochs.length."),
    Metric(
        "examples_total",
        Counter,
        "Records processed by what became of them: learned, unlabelled (scored only), rejected, or replayed.",
        ("partition", "outcome"),
    ),
    Metric(
        "asked_examples",
        Gauge,
        "Examples that came without a label, since the model's start, by what became of their scores: judged when the "
        "label came, pending, or forgotten before it did.",
        ("partition", "outcome"),
    ),
    Metric(
        "asked_loss",
        Gauge,
        "Mean loss of scores that were given before their labels came: of what was published, of linear, and of the "
        "constant that is best in hindsight.",
        ("partition", "predictor", "span"),
    ),
    Metric(
        "features_left_out_total",
        Counter,
        'Features that could not be read, where input.unreadable is "leave_out".',
        BY_PARTITION,
    ),
    Metric("loop_seconds_total", Counter, "Where the time of the loop's thread went.", ("phase",)),
    Metric("model_seconds_total", Counter, "What the threads that learn spent their time on.", ("step",)),
    Metric("threads", Gauge, "Threads that learn."),
    Metric("partition_state", Gauge, "1 for the state that the partition is in.", ("partition", "state")),
    *gauges(
        BY_PARTITION,
        lag_records="Records between the model and the end of the log.",
        lag_seconds="How far the partition's event time is behind the time of day; 0 when no record is waiting.",
        watermark_timestamp_seconds="The highest record timestamp so far.",
        epoch="Number of the current epoch: event time divided by the epoch's length.",
        epoch_end_timestamp_seconds="Event time at which the current epoch ends.",
        learned_examples="Examples that the model has learned.",
        features_per_example="Mean number of features of an example after expansion.",
        truncated_examples="Examples whose expansion stopped at the feature budget.",
        **GAUGES,
        late_records="Records so far that belong to an epoch that had ended.",
        gap_records="Offsets that were gone before they were learned, in gaps that were accepted.",
        snapshot_bytes="Size of the newest snapshot, if this worker has written it.",
        snapshot_timestamp_seconds="When the newest snapshot was written.",
        unsaved_records="Offsets since the newest snapshot: what a successor would replay.",
        recovery_records_left="Records to replay before the partition is live.",
        recovery_seconds_left="Time until the partition is live at the present speed; NaN at first.",
    ),
    Metric("learner_value", Gauge, "Further numbers that the model's learner reports.", ("partition", "name")),
    *_MEANS,
    Metric(
        "mixture_weight",
        Gauge,
        "How much of a predictor's score is in what is published; may be negative.",
        ("partition", "predictor"),
    ),
    Metric(
        "mixture_share",
        Gauge,
        "How far the predictors are trusted whose scores are mixed; their sum is 1.",
        ("partition", "predictor"),
    ),
    *_QUALITIES,
    Metric("parents", Gauge, "Monomials that are expanded, by degree.", ("partition", "degree")),
    Metric(
        "parent_changes_total",
        Counter,
        "Monomials that became parents (added), and parents that gave way to others (retired), at ends of epochs.",
        ("partition", "change"),
    ),
    Metric("monomials", Gauge, "Monomials in the table when the last epoch ended.", ("partition", "degree")),
    Metric(
        "epoch_digest_info",
        Gauge,
        "1, with the digest of the model when its last epoch had ended: equal in every run over the same records.",
        ("partition", "epoch", "digest"),
    ),
    Metric("snapshot_seconds", Histogram, "Time from a snapshot's state to its last message.", (), _SECONDS),
    Metric("restore_seconds", Histogram, "Time to read a snapshot back.", (), _SECONDS),
)


def register(rows: Iterable[Metric], registry: CollectorRegistry | None) -> dict[str, Any]:
    """Make the metrics, in the registry if there is one, and return them by their names in the table."""
    made: dict[str, Any] = {}
    for row in rows:
        extra: dict[str, Any] = {"buckets": row.buckets} if row.buckets else {}
        made[row.name] = row.kind(
            PREFIX + row.name.removesuffix("_total"), row.help, row.labels, registry=registry, **extra
        )
    return made
