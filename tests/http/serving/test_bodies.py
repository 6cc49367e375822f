"""Bodies that are refused, and requests that take long: what a client hears of it, and others meanwhile."""

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from support.asgi import FixedReplicas, application_of, learned
from support.served import served
from support.waiting import DEADLINE_S

PREDICT, EXPLAIN = "/v1/models/clicks:predict", "/v1/models/clicks:explain"
LARGE = 3_000_000


@pytest.fixture
def port() -> Iterator[int]:
    """Of a replica."""
    with served(application_of(FixedReplicas([learned()]))) as found:
        yield found


def reply_of(client: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    found = b""
    while part := client.recv(1 << 16):
        found += part
    return found


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", PREDICT, 413), ("POST", "/v1/models/other:predict", 404), ("PUT", PREDICT, 405), ("POST", "/else", 404)],
)
def test_who_sends_too_much_is_told(method: str, path: str, status: int, port: int) -> None:
    """Also one who looks at the reply only when all is sent, and closes the connection then."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as client:
        head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {LARGE}\r\n\r\n"
        client.sendall(head.encode() + bytes(LARGE))
        assert reply_of(client).startswith(b"HTTP/1.1 %d" % status)


async def ask(application: Starlette, order: list[str], method: str, path: str, body: bytes) -> None:
    """One request; its path and status are added to `order` with the reply."""
    coming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if coming:
            return coming.pop(0)
        await asyncio.sleep(DEADLINE_S)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            order.append(f"{path} {message['status']}")

    told = {"type": "http", "http_version": "1.1", "method": method, "path": path, "query_string": b""}
    await application({**told, "raw_path": path.encode(), "root_path": "", "headers": []}, receive, send)


def test_others_are_answered_between_two_large_bodies() -> None:
    """However many come at the same time: a probe does not wait for all of them."""
    application = application_of(FixedReplicas([learned()]), most=100, body=200_000, pending=10_000_000)
    order: list[str] = []
    large = json.dumps({"instances": [{"features": {"x" * 70_000: 1.0}}]}).encode()

    async def ask_all() -> None:
        asked = [ask(application, order, "POST", PREDICT, large) for _ in range(10)]
        await asyncio.gather(*asked, ask(application, order, "GET", "/v2/health/live", b""))

    asyncio.run(ask_all())
    assert len(order) == 11
    assert order.index("/v2/health/live 200") < 3


def test_others_are_answered_between_two_explanations() -> None:
    """Each reads a whole table: a request for many of them holds up no probe."""
    application = application_of(FixedReplicas([learned()]), most=100, body=100_000)
    order: list[str] = []

    async def ask_all() -> None:
        body = json.dumps({"instances": [{"features": {"price": 1.0}}] * 100}).encode()
        await asyncio.gather(
            ask(application, order, "POST", EXPLAIN, body), ask(application, order, "GET", "/v2/health/live", b"")
        )

    asyncio.run(ask_all())
    assert order == ["/v2/health/live 200", f"{EXPLAIN} 200"]


def test_nobody_is_explained_to_who_has_gone() -> None:
    """What is left of the request is not begun."""
    application = application_of(FixedReplicas([learned()]), most=100, body=100_000)
    body = json.dumps({"instances": [{"features": {"price": 1.0}}] * 100}).encode()
    coming = [{"type": "http.request", "body": body, "more_body": False}]
    statuses = []

    async def receive() -> dict[str, Any]:
        return coming.pop(0) if coming else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    told = {"type": "http", "http_version": "1.1", "method": "POST", "path": EXPLAIN, "query_string": b""}
    asyncio.run(application({**told, "raw_path": EXPLAIN.encode(), "root_path": "", "headers": []}, receive, send))
    assert statuses == [400]
