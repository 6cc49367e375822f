"""One port for probes and Prometheus: /metrics, /livez, /readyz. It reads what the loop has written, no more.

Runs on daemon threads of the standard library's server, and never touches a Kafka client: those belong to the
loop's thread.
"""

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_apple.errors import ConfigurationError
from stream_apple.runtime.health import Health, Verdict

_SLOW_CLIENT_S = 10


class Reply(NamedTuple):
    """What a path answers."""

    status: HTTPStatus
    content_type: str
    body: bytes


Route = Callable[[str], Reply]
"""From the request's Accept header to a reply."""


def routes(health: Health, registry: CollectorRegistry) -> dict[str, Route]:
    """The paths, and what each answers."""

    def metrics(accept: str) -> Reply:
        encode, content_type = choose_encoder(accept)
        return Reply(HTTPStatus.OK, content_type, encode(registry))

    return {
        "/metrics": metrics,
        "/livez": lambda _: _told(health.live()),
        "/readyz": lambda _: _told(health.ready()),
    }


def _told(verdict: Verdict) -> Reply:
    status = HTTPStatus.OK if verdict.good else HTTPStatus.SERVICE_UNAVAILABLE
    return _json(status, verdict.facts)


def _json(status: HTTPStatus, facts: dict[str, Any]) -> Reply:
    return Reply(status, "application/json", json.dumps(facts).encode() + b"\n")


class Server:
    """Listens from construction on; use as a context. ConfigurationError if the address can't be had.

    port  the one it listens on, also if 0 (any) was asked for
    """

    def __init__(self, host: str, port: int, paths: dict[str, Route]) -> None:
        handler = type("Handler", (_Handler,), {"paths": paths})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise ConfigurationError(
                f"http: expected to listen on {host} port {port}, found: {error.strerror or error}"
            ) from error
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    paths: dict[str, Route]
    protocol_version = "HTTP/1.1"
    timeout = _SLOW_CLIENT_S

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool = True) -> None:
        path = urlsplit(self.path).path
        route = self.paths.get(path)
        if route is None:
            facts = {"status": f"no such path: {path}", "paths": sorted(self.paths)}
            reply = _json(HTTPStatus.NOT_FOUND, facts)
        else:
            reply = route(self.headers.get("Accept", ""))
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(reply.body)

    def log_message(self, *_: object) -> None:
        """Probes come every few seconds: a line for each would drown the events."""
