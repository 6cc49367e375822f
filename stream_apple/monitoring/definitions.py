"""The table of a worker's metrics: name, kind, help and labels. `metrics.py` keeps them up to date."""

from prometheus_client import Counter, Gauge, Histogram

from stream_apple.learners.port import GAUGES
from stream_apple.monitoring.member_metrics import MEMBER_METRICS
from stream_apple.monitoring.metric import BY_PARTITION, SECONDS, Metric, gauges

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
    Metric("snapshot_seconds", Histogram, "Time from a snapshot's state to its last message.", (), SECONDS),
    Metric("restore_seconds", Histogram, "Time to read a snapshot back.", (), SECONDS),
)
