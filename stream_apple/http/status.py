"""The status of a worker as JSON: the values of its metrics, grouped for people, and facts that metrics can't hold."""

import platform
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stream_apple.monitoring.bounds import MOST_TOP
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.inspection import ModelView, plain, view_model
from stream_apple.monitoring.metrics import Metrics
from stream_apple.monitoring.name_search import Wanted
from stream_apple.monitoring.observer import WorkerObserver
from stream_apple.stream.partitions.state import INCOMPLETE

_STATUS_S = 0.5
_MODEL_S = 3.0
_SHARE = 0.03  # of a core, at most, for views of models: half of what the thread has that makes them

_WORKER = ("group", "worker", "topic", "method", "loss")


class NotShownError(Exception):
    """The model can't be shown: `absent` if this worker has no such partition, else it is not complete yet."""

    def __init__(self, message: str, *, absent: bool) -> None:
        super().__init__(message)
        self.absent = absent


class _Known(NamedTuple):
    """A view that is shown until some moment, and the keys of its base features that have no name."""

    until: float
    view: ModelView
    nameless: frozenset[int]


class Status:
    """The state of one worker, for any number of viewers; costly views are computed now and then, and kept.

    settings  the configuration, redacted, in JSON types
    look      has names looked for that the view of a model lacks; returns whether some may be known now
    now       returns monotonic seconds
    """

    def __init__(
        self,
        observer: WorkerObserver,
        metrics: Metrics,
        health: Health,
        settings: Mapping[str, Any],
        look: Callable[[Wanted], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observer = observer
        self._look = look
        self._metrics = metrics
        self._health = health
        self._settings = settings
        self.now = now
        self._began_ms = time.time_ns() // 1_000_000
        self._lock = threading.Lock()
        self._known: tuple[float, dict[str, Any]] | None = None
        self._views: dict[int, _Known] = {}

    def status(self, since_ms: int = 0) -> dict[str, Any]:
        """Return the reply to /status: everything but the models, and the points of histories after `since_ms`."""
        with self._lock:
            if self._known is None or self.now() >= self._known[0]:
                self._known = (self.now() + _STATUS_S, self._facts())
            facts = self._known[1]
        numbers = [part["partition"] for part in facts["partitions"]]
        history = {str(number): self._observer.history(number, since_ms) for number in numbers}
        return {
            **facts,
            "history": {number: [plain([*point]) for point in points] for number, points in history.items()},
        }

    def model(self, partition: int, top: int) -> dict[str, Any]:
        """Return the reply to /model: the view of a partition's model; NotShownError if there is none at present."""
        known = self._known_view(partition)
        if known.nameless and self._look(Wanted(partition, known.view.at, known.nameless)):
            with self._lock:
                if self._views.get(partition) is known:
                    del self._views[partition]
            known = self._known_view(partition)
        return known.view.facts(top)

    def _known_view(self, partition: int) -> "_Known":
        """Return the view of the model as it is now, or was a moment ago."""
        with self._lock:
            owned = self._observer.owned
            found = owned.get(partition)
            if found is None:
                have = ", ".join(map(str, sorted(owned))) or "none"
                raise NotShownError(
                    f"expected a partition of this worker ({have} at the moment), found {partition}", absent=True
                )
            if found.state in INCOMPLETE:
                raise NotShownError(
                    f"expected a complete model of partition {partition}, found it {found.state.value}", absent=False
                )
            self._views = {number: known for number, known in self._views.items() if number in owned}
            known = self._views.get(partition)
            if known is None or self.now() >= known.until:
                names = self._observer.names
                view = view_model(found.model, names, MOST_TOP, found.snapshot)
                known = _Known(self.now() + max(_MODEL_S, view.seconds / _SHARE), view, names.missing)
                self._views[partition] = known
        return known

    def _facts(self) -> dict[str, Any]:
        measured = self._metrics.facts()
        facts = {
            "at_ms": time.time_ns() // 1_000_000,
            "began_ms": self._began_ms,
            "about": {
                **{name: self._metrics.worker.get(name, "") for name in _WORKER},
                **self._metrics.build,
                "python": platform.python_version(),
                "names_known": len(self._observer.names),
            },
            "live": self._health.live().facts,
            "ready": self._health.ready().facts,
            **measured,
            "dead_letters": {
                "by_reason": {reason: int(count) for reason, count in measured["dead_letters"].items() if count},
                "recent": self._observer.dead_letters(),
            },
            "findings": list(self._observer.findings),
            "config": self._settings,
        }
        told: dict[str, Any] = plain(facts)
        return told
