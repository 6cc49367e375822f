"""A row in the tables of metrics, and how rows become metrics.

There are two kinds of numbers. Counters (`_total`) and histograms are about this process and start at zero with it.
Gauges with a partition are about its model; they survive a restart, because the model does. They disappear when the
partition goes to another worker, so that a sum over workers counts each partition once.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Buckets of histograms of seconds."""


def register(rows: Iterable[Metric], registry: CollectorRegistry | None) -> dict[str, Any]:
    """Make the metrics, in the registry if there is one, and return them by their names in the table."""
    made: dict[str, Any] = {}
    for row in rows:
        extra: dict[str, Any] = {"buckets": row.buckets} if row.buckets else {}
        made[row.name] = row.kind(
            PREFIX + row.name.removesuffix("_total"), row.help, row.labels, registry=registry, **extra
        )
    return made
