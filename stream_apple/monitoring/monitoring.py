"""The watchers of a worker's loop, which the loop knows as `Watchers`."""

from typing import NamedTuple

from stream_apple.monitoring.health import Health
from stream_apple.monitoring.metrics import Metrics
from stream_apple.monitoring.observer import NullObserver
from stream_apple.stream.loop.watchers import Observer


class Monitoring(NamedTuple):
    """Holds the metrics for Prometheus, the health for probes, and the observer for the status page."""

    metrics: Metrics
    health: Health
    observer: Observer = NullObserver()
