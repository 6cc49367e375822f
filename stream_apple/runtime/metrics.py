"""Everything this worker measures, kept up to date.

Counters are updated once per batch, gauges once a second, nothing per record. The metrics are in `catalogue.py`.
"""

import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from stream_apple.core.epochs import EpochClock
from stream_apple.core.learner import Learner
from stream_apple.core.rejects import Reason
from stream_apple.runtime.catalogue import MEANS, METRICS, PREFIX, Metric
from stream_apple.runtime.lineage import FORMAT
from stream_apple.runtime.partition import Partition, State
from stream_apple.runtime.phases import Phase, TimeBudget
from stream_apple.runtime.recovering import Left
from stream_apple.runtime.step import Outcome

_REFRESH_S = 1.0
"""How often gauges are written: reading a model's sums costs more than learning a small batch."""


class Metrics:
    """All metrics in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._all: dict[str, Any] = {row.name: self._register(row) for row in METRICS}
        self._all["build_info"].labels(version("stream-apple"), str(FORMAT)).set(1)
        self._partitions: dict[int, PartitionMetrics] = {}
        self._booked = dict.fromkeys(Phase, 0.0)
        self._refresh_at = 0.0
        # Series that exist from the start make the first increase visible to rate().
        self._phases = {phase: self._all["loop_seconds_total"].labels(phase.value) for phase in Phase}
        self._results = {result: self._all["transactions_total"].labels(result) for result in ("committed", "aborted")}
        self._events = {event: self._all["rebalances_total"].labels(event) for event in ("assigned", "revoked", "lost")}

    def describe(self, about: Mapping[str, str], snapshot_interval_s: float, epoch_length_s: float) -> None:
        """What this worker is: the labels of `worker_info`, and settings that others are compared with."""
        self._all["worker_info"].labels(**about).set(1)
        self._all["snapshot_interval_seconds"].set(snapshot_interval_s)
        self._all["epoch_length_seconds"].set(epoch_length_s)

    def watch_brokers(self, reachable: Callable[[], bool]) -> None:
        """Ask this at every scrape: the loop may be waiting for the brokers just then."""
        self._all["brokers_reachable"].set_function(reachable)

    def counted(self, partitions: int) -> None:
        """The examples topic has so many partitions."""
        self._all["topic_partitions"].set(partitions)

    def _register(self, row: Metric) -> Counter | Gauge | Histogram:
        extra: dict[str, Any] = {"buckets": row.buckets} if row.buckets else {}
        name = PREFIX + row.name.removesuffix("_total")
        return row.kind(name, row.help, row.labels, registry=self.registry, **extra)

    def turned(
        self,
        budget: TimeBudget,
        owned: Mapping[int, Partition],
        backlog: Callable[[int], int],
        left: Callable[[Partition], Left],
    ) -> None:
        """The loop has come round; `backlog` and `left` are asked about once a second."""
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
            self._partitions[number].refresh(partition, backlog(number), left(partition))

    def processed(self, partition: Partition, outcome: Outcome) -> None:
        """A batch of the partition has been learned and sent."""
        self._partitions[partition.number].processed(partition, outcome)

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

    def saved(self, partition: Partition, size: int, seconds: float) -> None:
        """A snapshot of `size` bytes is written, which took `seconds`."""
        self._all["snapshot_seconds"].observe(seconds)
        self._all["snapshot_bytes"].labels(str(partition.number)).set(size)

    def restored(self, seconds: float) -> None:
        """A snapshot was read back, which took `seconds`."""
        self._all["restore_seconds"].observe(seconds)

    def aborted(self) -> None:
        """A transaction was aborted."""
        self._results["aborted"].inc()

    def rebalanced(self, event: str) -> None:
        """The group has told us something: assigned, revoked or lost."""
        self._events[event].inc()


class PartitionMetrics:
    """The series of one partition. A gauge is exported from its first true value on: 0 would be a false one."""

    def __init__(self, metrics: dict[str, Any], number: int) -> None:
        self._metrics = metrics
        self._label = str(number)
        self._table_shown = False
        self._digest: tuple[str, str] | None = None
        self._states = {state: metrics["partition_state"].labels(self._label, state.value) for state in State}
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

    def processed(self, partition: Partition, outcome: Outcome) -> None:
        """Count the records of a batch."""
        self._outcomes["learned"].inc(outcome.learned)
        self._outcomes["unlabelled"].inc(outcome.unlabelled)
        self._outcomes["rejected"].inc(len(outcome.rejects))
        self._outcomes["replayed"].inc(outcome.replayed)
        for reject in outcome.rejects:
            self._reasons[reject.reason].inc()
        if outcome.ends:
            self._show_table(partition.model.learner)

    def refresh(self, partition: Partition, backlog: int, left: Left) -> None:
        """Show where the model stands now; nothing of one that is still being read."""
        self._show({"recovery_records_left": left.records, "recovery_seconds_left": left.seconds})
        if partition.state is State.RESTORING:
            return
        model = partition.model
        if not self._table_shown:
            self._show_table(model.learner)
        self._show_safety(partition)
        self._show_position(model.clock, backlog)
        self._show_learner(model.learner)

    def _show(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._metrics[name].labels(self._label).set(value)

    def _show_safety(self, partition: Partition) -> None:
        gaps = sum(gap.stop - gap.start for gap in partition.lineage.gaps)
        self._show({"unsaved_records": partition.unsaved, "gap_records": gaps})
        if partition.saved_at_ms > 0:
            self._show({"snapshot_timestamp_seconds": partition.saved_at_ms / 1000})
        if partition.model.epoch_digest:
            digest = (str(partition.model.ended_epoch), partition.model.epoch_digest)
            if digest != self._digest:
                self._metrics["epoch_digest_info"].remove_by_labels({"partition": self._label})
                self._metrics["epoch_digest_info"].labels(self._label, *digest).set(1)
                self._digest = digest

    def _show_position(self, clock: EpochClock, backlog: int) -> None:
        if backlog >= 0:
            self._show({"lag_records": backlog})
        if clock.epoch < 0:
            return
        behind = max(0.0, time.time() - clock.watermark_ms / 1000)
        self._show(
            {
                "lag_seconds": behind if backlog > 0 else 0.0,
                "watermark_timestamp_seconds": clock.watermark_ms / 1000,
                "epoch": clock.epoch,
                "epoch_end_timestamp_seconds": clock.end_ms / 1000,
                "late_records": clock.late,
            }
        )

    def _show_learner(self, learner: Learner) -> None:
        progress = learner.progress
        for span, sums in (
            ("start", progress.whole),
            ("epoch", progress.epoch),
            ("last_epoch", progress.last_epoch),
            ("recent", progress.recent),
        ):
            for name, value in zip(MEANS, progress.report(sums), strict=True):
                self._metrics[name].labels(self._label, span).set(value)
        self._show(
            {
                "learned_examples": learner.examples,
                "features_per_example": learner.features_per_example,
                "truncated_examples": learner.truncated,
                "table_slots": learner.capacity,
                "table_occupied_slots": learner.occupied,
                "table_evictions": learner.evicted,
                "table_refusals": learner.refused,
            }
        )

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
