"""All that a loop tells what it does."""

from typing import NamedTuple

from stream_apple.runtime.monitoring.health import Health
from stream_apple.runtime.monitoring.metrics import Metrics
from stream_apple.runtime.monitoring.observer import NullObserver, Observer


class Monitoring(NamedTuple):
    """Numbers for Prometheus, truths for probes, and what the status page shows beside them."""

    metrics: Metrics
    health: Health
    observer: Observer = NullObserver()
