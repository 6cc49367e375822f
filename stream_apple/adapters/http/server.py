"""One read-only port for people, probes and Prometheus. It only reads what the loop has written.

It has three daemon threads, each within its share of a core: one has all connections and answers the probes, one
renders for Prometheus, one for the page. None of them uses a Kafka client, as those belong to the loop's thread.
"""

import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_apple.adapters.http.messages import Reply, ReplyCache, Request, Route, json_reply
from stream_apple.adapters.http.reception import Reception
from stream_apple.adapters.http.render_thread import RenderThread
from stream_apple.adapters.http.work_share import WorkShare
from stream_apple.monitoring.health import Health, Verdict

PROBES = ("/livez", "/readyz")
METRICS_PATH = "/metrics"

RECEPTION = (0.01, 0.1)
"""Share of a core, and seconds of work at once, of the thread with the connections; of the other two below."""
METRICS_THREAD = (0.01, 0.5)
PAGES_THREAD = (0.06, 1.0)


def routes(health: Health, registry: CollectorRegistry, now: Callable[[], float] = time.monotonic) -> dict[str, Route]:
    """Return the paths of probes and Prometheus, each with its route."""
    return {METRICS_PATH: metrics_route(registry, now), **probe_routes(health.live, health.ready)}


def probe_routes(live: Callable[[], Verdict], ready: Callable[[], Verdict]) -> dict[str, Route]:
    """Return the paths of probes, each with a route that answers by its function."""
    return {"/livez": lambda _: _told(live()), "/readyz": lambda _: _told(ready())}


def facts_route(facts: Callable[[], Any]) -> Route:
    """Return a route that answers with the present facts as JSON."""
    return lambda _: json_reply(HTTPStatus.OK, facts())


def metrics_route(registry: CollectorRegistry, now: Callable[[], float] = time.monotonic) -> Route:
    """Return the route for Prometheus, whose reply is rendered at most twice a second."""
    kept = ReplyCache(now)

    def metrics(request: Request) -> Reply:
        encode, content_type = choose_encoder(request.accept)
        return kept.reply(content_type, lambda: Reply(HTTPStatus.OK, content_type, encode(registry)))

    return metrics


def _told(verdict: Verdict) -> Reply:
    status = HTTPStatus.OK if verdict.good else HTTPStatus.SERVICE_UNAVAILABLE
    return json_reply(status, verdict.facts)


class Server:
    """Answers the requests that come to `listener`, and closes it in the end; use as a context.

    used  seconds of work that the calling thread has done so far
    """

    def __init__(
        self, listener: socket.socket, paths: dict[str, Route], used: Callable[[], float] = time.thread_time
    ) -> None:
        self.port: int = listener.getsockname()[1]
        self._reception = Reception(listener, paths, WorkShare(*RECEPTION, used), self._thread_of)
        deliver = self._reception.deliver
        self._metrics = RenderThread("http-metrics", WorkShare(*METRICS_THREAD, used), deliver)
        self._pages = RenderThread("http-pages", WorkShare(*PAGES_THREAD, used), deliver)
        self._thread = threading.Thread(target=self._reception.run, name="http", daemon=True)

    def _thread_of(self, path: str) -> RenderThread | None:
        if path in PROBES:
            return None
        return self._metrics if path == METRICS_PATH else self._pages

    def __enter__(self) -> Self:
        for thread in (self._metrics, self._pages, self._thread):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for part in (self._metrics, self._pages, self._reception):
            part.stop()
        self._thread.join()
