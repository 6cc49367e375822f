"""What all ASGI applications of the server have in common: headers, errors, and the routes of probes and metrics."""

import time
from collections.abc import Callable, Hashable, Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, make_asgi_app
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from stream_apple.http.middleware import HeadLimit, Lingering
from stream_apple.http.replies import json_reply
from stream_apple.monitoring.health import Health, Verdict

METRICS_PATH = "/metrics"
HEADERS = {
    "Cache-Control": "no-store",
    # Names and messages of untrusted records are shown: a browser that is fooled may still do nothing with them.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""What the server sends with every reply of an application."""
KEPT_S = 1.0
"""Seconds for which a reply that is costly to make is sent again; the worker renews most facts once a second."""

_MOST_KEPT = 64
_LONGEST_PATH_SHOWN = 200

Explain = Callable[[Request, HTTPException], dict[str, Any]]
"""(request, error) -> the reply's facts, with a sentence as `error`, for a request that no route takes."""

_log = structlog.get_logger()


def application(routes: Sequence[Route], explain: Explain) -> Starlette:
    """Return the ASGI application with these routes.

    An error is `{"error": "..."}`. An unexpected one is logged as `http_failed`, and closes the connection.
    """

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return json_reply(explain(request, error), error.status_code, dict(error.headers or {}))

    made = Starlette(
        routes=routes,
        exception_handlers={HTTPException: refuse, Exception: _report_defect},
        middleware=[Middleware(HeadLimit), Middleware(Lingering)],
    )
    made.router.redirect_slashes = False  # a path with one more slash is another one
    return made


def read_only(routes: Sequence[Route]) -> Starlette:
    """Return the ASGI application with these routes, all of which only read."""
    paths = sorted(route.path for route in routes)

    def explain(request: Request, error: HTTPException) -> dict[str, Any]:
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return {"error": "expected GET or HEAD: this port is for reading only"}
        if is_unexplained(error):
            return {"error": f"no such path: {shown_path(request)}", "paths": paths}
        return {"error": error.detail}

    return application(routes, explain)


def is_unexplained(error: HTTPException) -> bool:
    """Return whether the error is starlette's own, which says nothing but what the status is."""
    return error.detail == HTTPStatus(error.status_code).phrase


async def _report_defect(_: Request, error: Exception) -> Response:
    _log.error("http_failed", exc_info=error)
    return json_reply({"error": "a defect, see http_failed in the log"}, HTTPStatus.INTERNAL_SERVER_ERROR)


class KeptReplies:
    """Keeps what was made for a moment, for further clients that ask the same."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[Hashable, tuple[float, Any]] = {}

    def get(self, question: Hashable) -> Any:  # noqa: ANN401
        """Return what was put less than KEPT_S ago, or None."""
        until, found = self._kept.get(question, (0.0, None))
        return found if self._now() < until else None

    def put(self, question: Hashable, reply: object) -> None:
        """Keep this for the question."""
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[question] = (self._now() + KEPT_S, reply)


class MetricsEndpoint:
    """The metrics in the format that the client asks for, rendered at most once a second."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._render = make_asgi_app(registry, disable_compression=True)
        self._kept = KeptReplies()

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer the request."""
        accepted = tuple(each for each in scope["headers"] if each[0] == b"accept" and each[1].isascii())
        question = (accepted, scope["query_string"])
        messages: list[Message] | None = self._kept.get(question)
        if messages is None:
            messages = []

            async def keep(message: Message) -> None:
                messages.append(message)

            await self._render({**scope, "headers": accepted}, _no_body, keep)
            self._kept.put(question, messages)
        for message in messages:
            await send(message)


async def _no_body() -> Message:
    return {"type": "http.request"}


def routes(health: Health, registry: CollectorRegistry) -> list[Route]:
    """Return the routes that each process has which works on a stream: metrics and probes."""
    return [metrics_route(registry), *probe_routes(health.live, health.ready)]


def metrics_route(registry: CollectorRegistry) -> Route:
    """Return the route for Prometheus."""
    return Route(METRICS_PATH, MetricsEndpoint(registry), methods=["GET"])


def probe_routes(live: Callable[[], Verdict], ready: Callable[[], Verdict]) -> list[Route]:
    """Return the routes of Kubernetes' probes, each answered by its function."""
    return [_probe("/livez", live), _probe("/readyz", ready)]


def _probe(path: str, verdict: Callable[[], Verdict]) -> Route:
    async def answer(_: Request) -> Response:
        good, facts = verdict()
        return json_reply(facts, HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE)

    return Route(path, answer)


def facts_route(path: str, facts: Callable[[], Any]) -> Route:
    """Return a route that answers with the present facts as JSON."""

    async def answer(_: Request) -> Response:
        return json_reply(facts())

    return Route(path, answer)


def file_route(path: str, package: str, name: str, media_type: str) -> Route:
    """Return a route to a file in the folder `static` of a package."""
    body = files(package).joinpath("static", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(body, media_type=media_type)

    return Route(path, answer)


def shown_path(request: Request) -> str:
    """Return the path as messages quote it."""
    path: str = request.scope["path"]  # `request.url` takes some for no address
    return path[:_LONGEST_PATH_SHOWN]
