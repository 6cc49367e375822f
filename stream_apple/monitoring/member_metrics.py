"""The metrics of every process that is a member of a group and writes transactions, in a registry of its own."""

from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.metadata import version

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

from stream_apple.monitoring.metric import BY_PARTITION, SECONDS, Metric, register
from stream_apple.monitoring.series import Tally

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
        "For how long the partition has waited for a schema that the registry has not given; 0 if it waits for none.",
        BY_PARTITION,
    ),
    Metric("dead_letters_total", Counter, "Records sent to the dead-letter topic.", ("partition", "reason")),
    Metric("transactions_total", Counter, "Transactions by how they ended: committed or aborted.", ("result",)),
    Metric("commit_seconds", Histogram, "Time to commit a transaction.", (), SECONDS),
    Metric("loop_turns_total", Counter, "Turns of the loop."),
    Metric("rebalances_total", Counter, "Events of the consumer group: assigned, revoked, lost.", ("event",)),
    Metric("owned_partitions", Gauge, "Partitions that this worker owns."),
)
"""Those of every member of a group that writes transactions: of workers, and of joiners."""


class MemberMetrics:
    """Keeps the metrics of the process, the brokers, transactions and the group; subclasses keep the others.

    rows    all metrics of the process, including these
    format  version of the metadata that it commits with offsets

    build   the labels of `build_info`
    """

    def __init__(self, rows: Iterable[Metric], format: int) -> None:  # noqa: A002  the field's word
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._all = register(rows, self.registry)
        self.build = {"version": version("stream-apple"), "model_format": str(format)}
        self._all["build_info"].labels(**self.build).set(1)
        self._transactions = Tally(self._all["transactions_total"], ("committed", "aborted"))
        self._rebalances = Tally(self._all["rebalances_total"], ("assigned", "revoked", "lost"))
        self._reachable: Callable[[], bool] = bool
        self._topic_faults: Collection[tuple[str, str]] = ()

    def watch_brokers(self, reachable: Callable[[], bool]) -> None:
        """Call `reachable` at every scrape, as the loop may be waiting for the brokers at that time."""
        self._all["brokers_reachable"].set_function(reachable)
        self._reachable = reachable

    def show_topic_faults(self, seconds: Mapping[tuple[str, str], float]) -> None:
        """Show which topics have faults, by topic and fault, and for how many seconds; one thread may call this."""
        gauge = self._all["topic_fault_seconds"]
        for mended in set(self._topic_faults) - seconds.keys():
            gauge.remove(*mended)
        for labels, value in seconds.items():
            gauge.labels(*labels).set(value)
        self._topic_faults = tuple(seconds)

    def committed(self, seconds: float) -> None:
        """Count a committed transaction, which took `seconds`."""
        self._transactions.add("committed")
        self._all["commit_seconds"].observe(seconds)

    def aborted(self) -> None:
        """Count an aborted transaction."""
        self._transactions.add("aborted")

    def rebalanced(self, event: str) -> None:
        """Count a rebalance; `event` is assigned, revoked or lost."""
        self._rebalances.add(event)
