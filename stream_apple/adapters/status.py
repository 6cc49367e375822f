"""What the worker says of itself as JSON: the metrics regrouped for people, and what metrics can't hold."""

import platform
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from stream_apple.runtime.catalogue import BY_PARTITION, MEANS, METRICS, PREFIX
from stream_apple.runtime.health import Health
from stream_apple.runtime.inspection import ModelView, inspect, plain
from stream_apple.runtime.partition import State
from stream_apple.runtime.watching import Watch

MOST_TOP = 200
"""Monomials, products and parents of a model that can be asked for."""
_STATUS_S = 0.5
_MODEL_S = 3.0
_SHARE = 0.05  # of a core, at most, for views of models

_GAUGES = tuple(row.name for row in METRICS if row.labels == BY_PARTITION)
_WORKER = ("group", "worker", "topic", "method", "loss")


class NotShownError(Exception):
    """There is no such model here; `absent` if it is another worker's, else it is not complete yet."""

    def __init__(self, message: str, *, absent: bool) -> None:
        super().__init__(message)
        self.absent = absent


class _Series(NamedTuple):
    labels: Mapping[str, str]
    value: float


class Status:
    """The state of one worker, for any number of viewers: what is costly is computed once in a while.

    settings  the configuration, redacted, in JSON types
    """

    def __init__(
        self,
        watch: Watch,
        registry: CollectorRegistry,
        health: Health,
        settings: Mapping[str, Any],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watch = watch
        self._registry = registry
        self._health = health
        self._settings = settings
        self._now = now
        self._began_ms = time.time_ns() // 1_000_000
        self._lock = threading.Lock()
        self._known: tuple[float, dict[str, Any]] | None = None
        self._views: dict[int, tuple[float, ModelView]] = {}

    def status(self, since_ms: int = 0) -> dict[str, Any]:
        """Everything but the models; of the histories, the points later than `since_ms`."""
        with self._lock:
            if self._known is None or self._now() >= self._known[0]:
                self._known = (self._now() + _STATUS_S, self._facts())
            facts = self._known[1]
        numbers = [part["partition"] for part in facts["partitions"]]
        history = {str(number): self._watch.history(number, since_ms) for number in numbers}
        return {**facts, "history": {number: [plain(list(p)) for p in points] for number, points in history.items()}}

    def model(self, partition: int, top: int) -> dict[str, Any]:
        """The view of a partition's model; NotShownError if it can't be had here and now."""
        with self._lock:
            owned = self._watch.owned
            found = owned.get(partition)
            if found is None:
                have = ", ".join(map(str, sorted(owned))) or "none"
                raise NotShownError(
                    f"expected a partition of this worker ({have} at the moment), found {partition}", absent=True
                )
            if found.state is State.RESTORING:
                raise NotShownError(
                    f"expected a complete model of partition {partition}, found it being restored", absent=False
                )
            self._views = {number: known for number, known in self._views.items() if number in owned}
            known = self._views.get(partition)
            if known is None or self._now() >= known[0]:
                view = inspect(found.model, self._watch.names, MOST_TOP, found.snapshot)
                known = (self._now() + max(_MODEL_S, view.seconds / _SHARE), view)
                self._views[partition] = known
        view = known[1]
        cut = view._replace(top=view.top[:top], products=view.products[:top], parents=view.parents[:top])
        facts: dict[str, Any] = plain(cut)
        return facts

    def _facts(self) -> dict[str, Any]:
        series = _series(self._registry)
        about = next(iter(series["worker_info"]), _Series({}, 0.0)).labels
        build = next(iter(series["build_info"]), _Series({}, 0.0)).labels
        reasons: dict[str, int] = defaultdict(int)
        for labels, value in series["dead_letters_total"]:
            reasons[labels["reason"]] += int(value)
        facts = {
            "at_ms": time.time_ns() // 1_000_000,
            "began_ms": self._began_ms,
            "about": {
                **{name: about.get(name, "") for name in _WORKER},
                **build,
                "python": platform.python_version(),
                "names_known": len(self._watch.names),
            },
            "live": self._health.live().facts,
            "ready": self._health.ready().facts,
            "epoch_length_s": _only(series["epoch_length_seconds"]),
            "brokers_reachable": _only(series["brokers_reachable"]),
            "partitions": _partitions(series),
            "loop_seconds": _by("phase", series["loop_seconds_total"]),
            "transactions": _by("result", series["transactions_total"]),
            "rebalances": _by("event", series["rebalances_total"]),
            "dead_letters": {
                "by_reason": {reason: count for reason, count in reasons.items() if count},
                "recent": self._watch.dead_letters(),
            },
            "config": self._settings,
        }
        told: dict[str, Any] = plain(facts)
        return told


def _series(registry: CollectorRegistry) -> dict[str, list[_Series]]:
    """All of our own series, by name without the prefix."""
    found: dict[str, list[_Series]] = defaultdict(list)
    for family in registry.collect():
        for sample in family.samples:
            if sample.name.startswith(PREFIX):
                found[sample.name.removeprefix(PREFIX)].append(_Series(sample.labels, sample.value))
    return found


def _only(series: Iterable[_Series]) -> float | None:
    return next((each.value for each in series), None)


def _by(label: str, series: Iterable[_Series]) -> dict[str, float]:
    return {labels[label]: value for labels, value in series}


def _partitions(series: Mapping[str, list[_Series]]) -> list[dict[str, Any]]:
    """One object for each partition that is ours, in their order."""
    parts: dict[str, dict[str, Any]] = {}
    for labels, value in series["partition_state"]:
        if value == 1:
            number = labels["partition"]
            parts[number] = {
                "partition": int(number), "state": labels["state"], "losses": {}, "examples": {}, "parents": {},
                "monomials": {}, "digest": None,
            }  # fmt: skip
    for name in _GAUGES:
        for labels, value in series[name]:
            if labels["partition"] in parts:
                parts[labels["partition"]][name] = value
    for name, key in (("parents", "degree"), ("monomials", "degree"), ("examples_total", "outcome")):
        for labels, value in series[name]:
            if labels["partition"] in parts:
                parts[labels["partition"]][name.removesuffix("_total")][labels[key]] = value
    for name in MEANS:
        for labels, value in series[name]:
            if labels["partition"] in parts:
                parts[labels["partition"]]["losses"].setdefault(labels["span"], {})[name] = value
    for labels, _ in series["epoch_digest_info"]:
        if labels["partition"] in parts:
            parts[labels["partition"]]["digest"] = {"epoch": labels["epoch"], "digest": labels["digest"]}
    return [parts[number] for number in sorted(parts, key=int)]
