"""The series of metrics: counters that are there from the start, and gauges that leave with their partition."""

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import Counter, Gauge

from stream_apple.records.message.reasons import Reason


class Tally:
    """A counter whose last label has these values, and its count of each.

    Its series exist from the start: that makes the first increase visible to rate().
    """

    def __init__(self, counter: Counter, values: Iterable[str], *labels: str) -> None:
        self.counts = dict.fromkeys(values, 0.0)
        self._series = {value: counter.labels(*labels, value) for value in self.counts}

    def add(self, value: str, amount: float = 1.0) -> None:
        """Add `amount` to the series of this label value."""
        self._series[value].inc(amount)
        self.counts[value] += amount


def dead_letters_of(metrics: Mapping[str, Any], partition: str) -> Tally:
    """Return the counts of a partition's dead letters by reason."""
    return Tally(
        metrics["dead_letters_total"], (reason.code for reason in Reason if reason is not Reason.OK), partition
    )


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
