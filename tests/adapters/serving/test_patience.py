"""Clients that keep a replica waiting: they are not waited for without an end, and others have their turn."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from adapters.serving.asgi import FixedReplicas, application_of, learned
from adapters.serving.served import served
from starlette.responses import Response
from support.waiting import DEADLINE_S

from stream_apple.adapters.serving import patience, uvicorn_server

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"
PREDICT, EXPLAIN = "/v1/models/clicks:predict", "/v1/models/clicks:explain"
LARGE, MUCH = 3_000_000, 50_000_000


def connect(port: int) -> socket.socket:
    """A client."""
    return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)


def is_closed(client: socket.socket) -> bool:
    """Whether the server closes the connection, or has; it says nothing before."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def reply_of(client: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    found = b""
    while part := client.recv(1 << 16):
        found += part
    return found


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Of a replica that is soon tired of waiting, and has room for four connections."""
    monkeypatch.setattr(patience, "HEAD_S", 0.2)
    monkeypatch.setattr(patience, "READER_S", 0.2)
    monkeypatch.setattr(uvicorn_server, "_MOST_CONNECTIONS", 4)
    monkeypatch.setattr(uvicorn_server, "_TICKS_OF_A_LOOK", 1)

    async def much(_: Any) -> Any:
        return Response(bytes(MUCH))

    application = application_of(FixedReplicas([learned()]))
    application.add_route("/much", much)
    with served(application) as found:
        yield found


@pytest.mark.parametrize("said", [b"", b"G", LIVE[:-2], LIVE + b"GET"], ids=["nothing", "a byte", "no end", "a second"])
def test_a_head_that_does_not_come(said: bytes, port: int) -> None:
    """Not at first, and not behind a reply."""
    with connect(port) as client:
        client.sendall(said)
        if said.startswith(LIVE):
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert is_closed(client)


def test_a_head_a_byte_at_a_time(port: int) -> None:
    """However often something comes."""
    with connect(port) as client, pytest.raises(ConnectionError):  # noqa: PT012  which byte it is depends on the clock
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            client.sendall(b"a")
            time.sleep(0.01)


def test_a_reply_that_is_not_taken(port: int) -> None:
    """Its memory is free again."""
    with connect(port) as client:
        client.sendall(LIVE.replace(b"/v2/health/live", b"/much"))
        time.sleep(1)
        assert len(reply_of(client)) < MUCH  # what was on its way comes


def test_who_comes_finds_room(port: int) -> None:
    """However many have come before and say nothing."""
    silent = [connect(port) for _ in range(40)]
    with connect(port) as client:
        client.sendall(LIVE)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
    for each in silent:
        each.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", PREDICT, 413), ("POST", "/v1/models/other:predict", 404), ("PUT", PREDICT, 405), ("POST", "/else", 404)],
)
def test_who_sends_too_much_is_told(method: str, path: str, status: int, port: int) -> None:
    """Also one who looks at the reply only when all is sent, and closes the connection then."""
    with connect(port) as client:
        head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {LARGE}\r\n\r\n"
        client.sendall(head.encode() + bytes(LARGE))
        assert reply_of(client).startswith(b"HTTP/1.1 %d" % status)


def test_what_has_come_is_answered_before_the_end() -> None:
    """Also what nobody has read yet, nor accepted, as the loop was busy."""
    busy, free = threading.Event(), threading.Event()

    async def block(_: Any) -> Any:
        busy.set()
        assert free.wait(DEADLINE_S)
        return Response()

    application = application_of(FixedReplicas([learned()]))
    application.add_route("/block", block)
    with ExitStack() as clients:
        with served(application) as port:
            known, first, late = (clients.enter_context(connect(port)) for _ in range(3))
            known.sendall(LIVE)
            assert known.recv(1 << 16).startswith(b"HTTP/1.1 200")
            first.sendall(LIVE.replace(b"/v2/health/live", b"/block"))
            assert busy.wait(DEADLINE_S)
            new = clients.enter_context(connect(port))
            for each in (known, late, new):
                each.sendall(LIVE)
            threading.Timer(0.3, free.set).start()
        for each in (known, first, late, new):
            assert reply_of(each).startswith(b"HTTP/1.1 200")


def test_others_are_answered_between_two_explanations() -> None:
    """Each reads a whole table: a request for many of them holds up no probe."""
    application = application_of(FixedReplicas([learned()]), most=100, body=100_000)
    order: list[str] = []

    async def ask(method: str, path: str, body: bytes) -> None:
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

    async def ask_all() -> None:
        body = json.dumps({"instances": [{"features": {"price": 1.0}}] * 100}).encode()
        await asyncio.gather(ask("POST", EXPLAIN, body), ask("GET", "/v2/health/live", b""))

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
