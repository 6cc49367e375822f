"""Everything this worker measures: one table, and the holder that keeps it up to date.

Two kinds of numbers. Counters (`_total`) and the histogram are about this process and start at zero with it.
Gauges are about a partition's model; they survive a restart, because the model does. They disappear when the
partition goes to another worker, so that a sum over workers counts each partition once.

Counters are updated once per batch, gauges once a second, nothing per record.
"""

import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from stream_apple.core.epochs import EpochClock
from stream_apple.core.learner import Learner
from stream_apple.core.rejects import Reason
from stream_apple.runtime.lineage import FORMAT
from stream_apple.runtime.partition import Partition, State
from stream_apple.runtime.phases import Phase, TimeBudget
from stream_apple.runtime.step import Outcome, PartitionModel

PREFIX = "stream_apple_"


class Metric(NamedTuple):
    """One row of the table. The unit is the last word of the name, `_total` aside."""

    name: str
    kind: type[Counter] | type[Gauge] | type[Histogram]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_P = ("partition",)
_LOSSES = ("progressive_loss", "linear_progressive_loss", "best_constant_loss")
_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

METRICS = (
    Metric("build_info", Gauge, "1, with the version of this worker.", ("version", "model_format")),
    Metric(
        "examples_total",
        Counter,
        "Records processed by what became of them: learned, unlabelled (scored only), rejected, or replayed.",
        ("partition", "outcome"),
    ),
    Metric("dead_letters_total", Counter, "Records sent to the dead-letter topic.", ("partition", "reason")),
    Metric("transactions_total", Counter, "Transactions by how they ended: committed or aborted.", ("result",)),
    Metric("commit_seconds", Histogram, "Time to commit a transaction.", (), _SECONDS),
    Metric("loop_seconds_total", Counter, "Where the time of the loop's thread went.", ("phase",)),
    Metric("loop_turns_total", Counter, "Turns of the loop."),
    Metric("rebalances_total", Counter, "Events of the consumer group: assigned, revoked, lost.", ("event",)),
    Metric("owned_partitions", Gauge, "Partitions that this worker owns."),
    Metric("partition_state", Gauge, "1 for the state that the partition is in.", ("partition", "state")),
    Metric("lag_records", Gauge, "Records between the model and the end of the log.", _P),
    Metric(
        "lag_seconds",
        Gauge,
        "How far the partition's event time is behind the time of day; 0 when no record is waiting.",
        _P,
    ),
    Metric("watermark_timestamp_seconds", Gauge, "The highest record timestamp so far.", _P),
    Metric("epoch", Gauge, "Number of the current epoch: event time divided by the epoch's length.", _P),
    Metric("epoch_end_timestamp_seconds", Gauge, "Event time at which the current epoch ends.", _P),
    Metric(
        "progressive_loss",
        Gauge,
        "Mean loss of predictions made before learning: since the start, this epoch, last epoch, or recent.",
        ("partition", "span"),
    ),
    Metric(
        "linear_progressive_loss",
        Gauge,
        "The same of the linear predictor that learns alongside.",
        ("partition", "span"),
    ),
    Metric(
        "best_constant_loss",
        Gauge,
        "Mean loss of the constant that is best in hindsight.",
        ("partition", "span"),
    ),
    Metric("learned_examples", Gauge, "Examples that the model has learned.", _P),
    Metric("features_per_example", Gauge, "Mean number of features of an example after expansion.", _P),
    Metric("truncated_examples", Gauge, "Examples whose expansion stopped at the feature budget.", _P),
    Metric("parents", Gauge, "Monomials that are expanded, by degree.", ("partition", "degree")),
    Metric("monomials", Gauge, "Monomials in the table when the last epoch ended.", ("partition", "degree")),
    Metric("table_slots", Gauge, "Room for monomials.", _P),
    Metric("table_occupied_slots", Gauge, "Slots that hold a monomial.", _P),
    Metric("table_evictions", Gauge, "Monomials that lost their slot to another.", _P),
    Metric("table_refusals", Gauge, "Times that a monomial found no slot that may be given up.", _P),
    Metric("late_records", Gauge, "Records so far that belong to an epoch that had ended.", _P),
)

_REFRESH_S = 1.0
"""How often gauges are written: reading a model's sums costs more than learning a small batch."""


class Metrics:
    """All metrics in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._all: dict[str, Any] = {row.name: self._register(row) for row in METRICS}
        self._all["build_info"].labels(version("stream-apple"), str(FORMAT)).set(1)
        self._partitions: dict[int, PartitionMetrics] = {}
        self._booked = dict.fromkeys(Phase, 0.0)
        self._refresh_at = 0.0
        # Series that exist from the start make the first increase visible to rate().
        self._phases = {phase: self._all["loop_seconds_total"].labels(phase.value) for phase in Phase}
        self._results = {result: self._all["transactions_total"].labels(result) for result in ("committed", "aborted")}
        self._events = {event: self._all["rebalances_total"].labels(event) for event in ("assigned", "revoked", "lost")}

    def _register(self, row: Metric) -> Counter | Gauge | Histogram:
        extra: dict[str, Any] = {"buckets": row.buckets} if row.buckets else {}
        name = PREFIX + row.name.removesuffix("_total")
        return row.kind(name, row.help, row.labels, registry=self.registry, **extra)

    def turned(self, budget: TimeBudget, owned: Mapping[int, Partition], backlog: Callable[[int], int]) -> None:
        """The loop has come round; `backlog` is asked about once a second."""
        self._all["loop_turns_total"].inc()
        now = time.monotonic()
        if now < self._refresh_at:
            return
        self._refresh_at = now + _REFRESH_S
        for phase, seconds in budget.seconds.items():
            self._phases[phase].inc(seconds - self._booked[phase])
            self._booked[phase] = seconds
        self._all["owned_partitions"].set(len(owned))
        for number, partition in owned.items():
            self._partitions[number].refresh(partition.model, backlog(number))

    def processed(self, partition: Partition, outcome: Outcome) -> None:
        """A batch of the partition has been learned and sent."""
        self._partitions[partition.number].processed(partition.model, outcome)

    def entered(self, partition: Partition, state: State) -> None:
        """The partition has changed its state; those of REVOKED and LOST are forgotten."""
        number = partition.number
        if state in {State.REVOKED, State.LOST}:
            self._partitions.pop(number).remove()
            return
        if number not in self._partitions:
            self._partitions[number] = PartitionMetrics(self._all, number)
        self._partitions[number].entered(state)

    def committed(self, seconds: float) -> None:
        """A transaction was committed, which took `seconds`."""
        self._results["committed"].inc()
        self._all["commit_seconds"].observe(seconds)

    def aborted(self) -> None:
        """A transaction was aborted."""
        self._results["aborted"].inc()

    def rebalanced(self, event: str) -> None:
        """The group has told us something: assigned, revoked or lost."""
        self._events[event].inc()


class PartitionMetrics:
    """The series of one partition, bound once."""

    def __init__(self, metrics: dict[str, Any], number: int) -> None:
        self._metrics = metrics
        self._label = str(number)
        self._table_shown = False
        self._gauges = {row.name: metrics[row.name].labels(self._label) for row in METRICS if row.labels == _P}
        self._states = {state: metrics["partition_state"].labels(self._label, state.value) for state in State}
        self._losses = [
            [metrics[name].labels(self._label, span) for name in _LOSSES]
            for span in ("start", "epoch", "last_epoch", "recent")
        ]
        self._outcomes = {
            outcome: metrics["examples_total"].labels(self._label, outcome)
            for outcome in ("learned", "unlabelled", "rejected", "replayed")
        }
        self._reasons: dict[Reason, Any] = {
            reason: metrics["dead_letters_total"].labels(self._label, reason.code)
            for reason in Reason
            if reason is not Reason.OK
        }

    def entered(self, state: State) -> None:
        """Exactly one state is 1."""
        for each, gauge in self._states.items():
            gauge.set(each is state)

    def processed(self, model: PartitionModel, outcome: Outcome) -> None:
        """Count the records of a batch."""
        self._outcomes["learned"].inc(outcome.learned)
        self._outcomes["unlabelled"].inc(outcome.unlabelled)
        self._outcomes["rejected"].inc(len(outcome.rejects))
        self._outcomes["replayed"].inc(outcome.replayed)
        for reject in outcome.rejects:
            self._reasons[reject.reason].inc()
        if outcome.ends:
            self._show_table(model.learner)

    def refresh(self, model: PartitionModel, backlog: int) -> None:
        """Show where the model stands now."""
        if not self._table_shown:
            self._show_table(model.learner)
        self._show_position(model.clock, backlog)
        self._show_learner(model.learner)

    def _show_position(self, clock: EpochClock, backlog: int) -> None:
        if backlog >= 0:
            self._gauges["lag_records"].set(backlog)
        if clock.epoch < 0:
            return
        behind = max(0.0, time.time() - clock.watermark_ms / 1000)
        for name, value in (
            ("lag_seconds", behind if backlog > 0 else 0.0),
            ("watermark_timestamp_seconds", clock.watermark_ms / 1000),
            ("epoch", clock.epoch),
            ("epoch_end_timestamp_seconds", clock.end_ms / 1000),
            ("late_records", clock.late),
        ):
            self._gauges[name].set(value)

    def _show_learner(self, learner: Learner) -> None:
        progress = learner.progress
        spans = (progress.whole, progress.epoch, progress.last_epoch, progress.recent)
        for gauges, sums in zip(self._losses, spans, strict=True):
            for gauge, value in zip(gauges, progress.report(sums), strict=True):
                gauge.set(value)
        for name, value in (
            ("learned_examples", learner.examples),
            ("features_per_example", learner.features_per_example),
            ("truncated_examples", learner.truncated),
            ("table_slots", learner.capacity),
            ("table_occupied_slots", learner.occupied),
            ("table_evictions", learner.evicted),
            ("table_refusals", learner.refused),
        ):
            self._gauges[name].set(value)

    def _show_table(self, learner: Learner) -> None:
        """Counting reads the whole table: at the ends of epochs, and when a model comes to us."""
        self._table_shown = True
        self._show_degrees("parents", learner.parents_by_degree())
        self._show_degrees("monomials", learner.monomials_by_degree())

    def _show_degrees(self, name: str, counts: NDArray[np.int64]) -> None:
        for degree, count in enumerate(counts.tolist()):
            self._metrics[name].labels(self._label, str(degree)).set(count)

    def remove(self) -> None:
        """Let the gauges go with the partition; counters stay, because they are this process's."""
        for row in METRICS:
            if row.kind is Gauge and "partition" in row.labels:
                self._metrics[row.name].remove_by_labels({"partition": self._label})
