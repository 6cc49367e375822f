"""The gauges of one partition, which appear as it comes and go with it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client import Gauge


class GaugeSeries:
    """Sets gauges whose first label is one partition's number, and takes away those that it has set.

    To look for them among those of all partitions would make a rebalance the longer, the square of their number.
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
        """Show that series no more; no effect if it is not shown."""
        if self._set.pop((name, *labels), None) is not None:
            self._metrics[name].remove(self._label, *labels)

    def clear(self) -> None:
        """Show none of them any more."""
        for name, *labels in self._set:
            self._metrics[name].remove(self._label, *labels)
        self._set.clear()
