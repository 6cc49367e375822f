"""The metrics of every process that is a member of a group and writes transactions, in a registry of its own."""

from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from stream_apple.monitoring.definitions import Metric, register
from stream_apple.monitoring.series import Tally


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
