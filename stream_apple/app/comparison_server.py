"""The HTTP port of `stream-apple compare --serve`: metrics, probes, and the comparison as JSON."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stream_apple.comparing.group_comparison import ComparisonReport
from stream_apple.config import Config
from stream_apple.http.application import facts_route, metrics_route, probe_routes, read_only
from stream_apple.http.listener import listen
from stream_apple.http.server import HttpServer
from stream_apple.monitoring.comparison_metrics import ComparisonMetrics
from stream_apple.monitoring.health import STUCK_AFTER_S, Verdict

COMPARISON_PATH = "/comparison"
_TELL_S = 1.0


class ComparisonView:
    """Holds what the port shows. The thread that compares calls `turned` and `tell`; the server's threads the others.

    facts  the latest report, in JSON types
    """

    def __init__(self, champion: Config, challenger: Config, now: Callable[[], float] = time.monotonic) -> None:
        self.metrics = ComparisonMetrics(champion.worker.group, challenger.worker.group, champion.topics.examples)
        self.facts: dict[str, Any] = {}
        self._now = now
        self._turned_at, self._told_at = now(), -_TELL_S
        self._caught_up = False

    def turned(self) -> bool:
        """Note that the comparison goes on; return False: the comparison calls this to learn whether it must stop."""
        self._turned_at = self._now()
        return False

    def tell(self, told: ComparisonReport) -> None:
        """Show this report, at most once a second, and whenever all has been read."""
        self._caught_up |= told.complete
        if told.complete or self._now() - self._told_at >= _TELL_S:
            self._told_at = self._now()
            self.facts = told.facts()
            self.metrics.tell(told.comparison.whole(), dict(told.waiting))

    def live(self) -> Verdict:
        """Return whether the comparison goes on reading."""
        age = self._now() - self._turned_at
        return Verdict(age <= STUCK_AFTER_S, {"seconds_since_turn": round(age, 3)})

    def ready(self) -> Verdict:
        """Return whether everything that the topics held at the start has been compared."""
        return Verdict(self._caught_up, {"status": "ready" if self._caught_up else "catching up"})


@contextmanager
def serving(view: ComparisonView, host: str, port: int) -> Iterator[int]:
    """Serve while the context lasts, and yield the port; ConfigurationError if the port is taken."""
    routes = [
        metrics_route(view.metrics.registry),
        facts_route(COMPARISON_PATH, lambda: view.facts),
        *probe_routes(view.live, view.ready),
    ]
    with HttpServer(read_only(routes), listen(host, port)) as server:
        yield server.port
