"""One port for people, probes and Prometheus, for reading only. It reads what the loop has written, and no more.

Runs on daemon threads of the standard library's server, and never touches a Kafka client: those belong to the
loop's thread.
"""

import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_apple.runtime.monitoring.health import Health, Verdict

_SLOW_CLIENT_S = 10
_SECURITY = {
    # Names and messages of untrusted records are shown: a browser that is fooled may still do nothing with them.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_log = structlog.get_logger()


class Request(NamedTuple):
    """What is asked of a path: the Accept header, and the query's parameters with all of their values."""

    accept: str
    query: Mapping[str, Sequence[str]]


class Reply(NamedTuple):
    """What a path answers."""

    status: HTTPStatus
    content_type: str
    body: bytes


Route = Callable[[Request], Reply]


def routes(health: Health, registry: CollectorRegistry) -> dict[str, Route]:
    """The paths of probes and Prometheus, and what each answers."""

    def metrics(request: Request) -> Reply:
        encode, content_type = choose_encoder(request.accept)
        return Reply(HTTPStatus.OK, content_type, encode(registry))

    return {
        "/metrics": metrics,
        "/livez": lambda _: _told(health.live()),
        "/readyz": lambda _: _told(health.ready()),
    }


def _told(verdict: Verdict) -> Reply:
    status = HTTPStatus.OK if verdict.good else HTTPStatus.SERVICE_UNAVAILABLE
    return json_reply(status, verdict.facts)


def json_reply(status: HTTPStatus, facts: dict[str, Any]) -> Reply:
    """An answer with these facts, which hold JSON types only."""
    return Reply(status, "application/json", json.dumps(facts).encode() + b"\n")


class Server:
    """Answers the requests that come to `listener`, and closes it in the end; use as a context.

    port  the one it listens on
    """

    def __init__(self, listener: socket.socket, paths: dict[str, Route]) -> None:
        self._handler: type[_Handler] = type("Handler", (_Handler,), {"paths": paths})
        self._server = _HttpServer(listener, self._handler)
        self.port: int = listener.getsockname()[1]
        # How long a stop may have to wait for the server: its successor waits, too.
        poll = {"poll_interval": 0.02}
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs=poll, name="http", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._handler.leaving = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, handler: type["_Handler"]) -> None:
        super().__init__(listener.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  the base's signature
        """Log a defect of the server in the log's format; a viewer that has closed the page is no event."""
        error = sys.exception()
        if not isinstance(error, OSError):
            _log.error("http_failed", exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    paths: dict[str, Route]
    leaving = False  # a viewer that keeps asking would otherwise be answered after the server has closed
    protocol_version = "HTTP/1.1"
    timeout = _SLOW_CLIENT_S

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool = True) -> None:
        parts = urlsplit(self.path)
        path = parts.path
        route = self.paths.get(path)
        if route is None:
            facts = {"status": f"no such path: {path}", "paths": sorted(self.paths)}
            reply = json_reply(HTTPStatus.NOT_FOUND, facts)
        else:
            query = parse_qs(parts.query, keep_blank_values=True)
            reply = route(Request(self.headers.get("Accept", ""), query))
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Cache-Control", "no-store")
        if self.leaving:
            self.send_header("Connection", "close")
        for name, value in _SECURITY.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(reply.body)

    def log_message(self, *_: object) -> None:
        """Log nothing: probes come every few seconds, and a line for each would drown the events."""
