"""The numbers of merging, in the worker's registry where models are merged, and nowhere else."""

from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stream_apple.runtime.merging.leader import MergeSummary
from stream_apple.runtime.monitoring.definitions import BY_PARTITION, PREFIX, Metric

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)

MERGE_METRICS = (
    Metric("merge_round", Gauge, "Round whose end the partition has come to last.", BY_PARTITION),
    Metric("merge_held", Gauge, "1 while the partition waits at the end of a round, else 0.", BY_PARTITION),
    Metric("merge_hold_seconds", Histogram, "Time that a partition waited at the end of a round.", (), _SECONDS),
    Metric(
        "merges_total",
        Counter,
        "Rounds that ended in partitions of this worker, by how they went on: adopted (a merge with their own model in "
        "it), late (a merge of others), skipped (alone).",
        ("outcome",),
    ),
    Metric("merge_roster_partitions", Gauge, "Partitions in the last merge of this worker."),
    Metric(
        "merge_excluded_total",
        Counter,
        "Partitions that merges of this worker were without: late, idle, passed or displaced.",
        ("reason",),
    ),
    Metric("merge_seconds", Histogram, "Time from the closing of a round to the commit of its merge.", (), _SECONDS),
    Metric("merge_bytes_total", Counter, "Bytes of contributions read, and of merges written.", ("direction",)),
    Metric("merge_lost_parents_total", Counter, "Nominees without votes enough, and parents without a slot."),
)


class MergeMetrics:
    """Keeps them up to date; `merging.Recorder`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._all: dict[str, Any] = {}
        for row in MERGE_METRICS:
            extra: dict[str, Any] = {"buckets": row.buckets} if row.buckets else {}
            name = PREFIX + row.name.removesuffix("_total")
            self._all[row.name] = row.kind(name, row.help, row.labels, registry=registry, **extra)
        # Series that exist from the start make the first increase visible to rate().
        for name, values in (
            ("merges_total", ("adopted", "late", "skipped")),
            ("merge_excluded_total", ("late", "idle", "passed", "displaced")),
            ("merge_bytes_total", ("read", "written")),
        ):
            for value in values:
                self._all[name].labels(value)

    def merged(self, summary: MergeSummary) -> None:
        """This worker's leader has merged, and it is committed."""
        self._all["merge_roster_partitions"].set(summary.roster)
        for reason, count in summary.excluded.items():
            self._all["merge_excluded_total"].labels(reason).inc(count)
        self._all["merge_seconds"].observe(summary.seconds)
        self._all["merge_bytes_total"].labels("read").inc(summary.read_bytes)
        self._all["merge_bytes_total"].labels("written").inc(summary.written_bytes)
        self._all["merge_lost_parents_total"].inc(summary.lost_parents)

    def held(self, partition: int, number: int) -> None:
        """The partition waits at the end of this round."""
        self._all["merge_round"].labels(str(partition)).set(number)
        self._all["merge_held"].labels(str(partition)).set(1)

    def went_on(self, partition: int, outcome: str, seconds: float) -> None:
        """The partition goes on after so long."""
        self._all["merge_held"].labels(str(partition)).set(0)
        self._all["merge_hold_seconds"].observe(seconds)
        self._all["merges_total"].labels(outcome).inc()

    def dropped(self, partitions: Iterable[int]) -> None:
        """These are ours no more: what is said of them goes with them."""
        for partition in partitions:
            for name in ("merge_round", "merge_held"):
                self._all[name].remove_by_labels({"partition": str(partition)})
