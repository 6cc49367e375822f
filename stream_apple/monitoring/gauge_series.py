"""The gauges of one partition, which appear when it is assigned and disappear when it leaves."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client import Gauge


class GaugeSeries:
    """Sets gauges whose first label is one partition's number, and removes those that it has set.

    It remembers them: searching the gauges of all partitions would take a rebalance the square of their number.
    """

    def __init__(self, metrics: Mapping[str, Any], label: str) -> None:
        self._metrics = metrics
        self._label = label
        self._set: dict[tuple[str, ...], Gauge] = {}

    def set(self, name: str, value: float, *labels: str) -> None:
        """Show `value` in the series of the metric `name` with these labels besides the partition."""
        place = (name, *labels)
        series = self._set.get(place)
        if series is None:
            series = self._set[place] = self._metrics[name].labels(self._label, *labels)
        series.set(value)

    def remove(self, name: str, *labels: str) -> None:
        """Remove that series; no effect if it is not shown."""
        if self._set.pop((name, *labels), None) is not None:
            self._metrics[name].remove(self._label, *labels)

    def clear(self) -> None:
        """Remove all series of the partition."""
        for name, *labels in self._set:
            self._metrics[name].remove(self._label, *labels)
        self._set.clear()
