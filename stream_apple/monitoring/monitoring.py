"""All that a worker's loop tells what it does: what it knows as `Watchers`."""

from typing import NamedTuple

from stream_apple.monitoring.health import Health
from stream_apple.monitoring.metrics import Metrics
from stream_apple.monitoring.observer import NullObserver
from stream_apple.stream.loop.watchers import Observer


class Monitoring(NamedTuple):
    """Numbers for Prometheus, truths for probes, and what the status page shows beside them."""

    metrics: Metrics
    health: Health
    observer: Observer = NullObserver()
