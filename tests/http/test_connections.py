"""Clients that keep a server waiting: they are not waited for without an end, and others have their turn."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from starlette.routing import Route
from structlog.typing import EventDict
from support.local_http import fetch
from support.served import served
from support.waiting import DEADLINE_S, wait_until

from stream_apple.http import connections
from stream_apple.http.application import probe_routes, read_only
from stream_apple.http.connections import Awaited
from stream_apple.http.middleware import MAX_HEAD_BYTES
from stream_apple.http.server import BESIDE_LEARNING, SERVING, ServerLimits
from stream_apple.monitoring.health import Verdict

LIVE = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
MUCH = 50_000_000
FEW = ServerLimits(connections=4, finish_s=10)


def routes() -> list[Route]:
    """Probes, and a large file."""

    async def much(_: Any) -> Response:
        return Response(bytes(MUCH))

    good = Verdict(good=True, facts={})
    return [*probe_routes(lambda: good, lambda: good), Route("/much", much)]


def connect(port: int) -> socket.socket:
    """A client."""
    return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)


def reply_of(client: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    found = b""
    with suppress(ConnectionError):
        while part := client.recv(1 << 16):
            found += part
    return found


def ask(client: socket.socket) -> None:
    """One request, which must be answered well."""
    client.sendall(LIVE)
    found = b""
    while not found.endswith(b"{}"):
        found += client.recv(1 << 16)
    assert found.startswith(b"HTTP/1.1 200")


def is_served(port: int, client: socket.socket) -> bool:
    """Whether the server's side of this connection is open; the client can't see it before it has read everything."""
    sides = f":{port:04X}", f":{client.getsockname()[1]:04X}"
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text(encoding="ascii").splitlines()]
    return any((own[-5:], other[-5:]) == sides and state == "01" for _, own, other, state, *_ in lines)


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server that has room for four connections."""
    with served(read_only(routes()), FEW) as found:
        yield found


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients are waited for no longer than so."""
    for awaited in (Awaited.HEAD, Awaited.READER):
        monkeypatch.setitem(connections.PATIENCE_S, awaited, 0.2)


@pytest.mark.usefixtures("impatient")
class TestSlowClients:
    """Those that keep a connection and do not use it."""

    @pytest.mark.parametrize("said", [b"", b"G", LIVE[:-2]], ids=["nothing", "a byte", "no end"])
    def test_a_head_that_does_not_come(self, said: bytes, port: int) -> None:
        """However much of it has come."""
        with connect(port) as client:
            client.sendall(said)
            assert reply_of(client) == b""

    def test_a_head_after_a_reply_that_does_not_come(self, port: int) -> None:
        """From its first byte on."""
        with connect(port) as client:
            ask(client)
            client.sendall(b"GET")
            assert reply_of(client) == b""

    def test_a_head_a_byte_at_a_time(self, port: int) -> None:
        """However often something comes."""
        with connect(port) as client, pytest.raises(ConnectionError):  # noqa: PT012  which byte depends on the clock
            until = time.monotonic() + DEADLINE_S
            while time.monotonic() < until:
                client.sendall(b"a")
                time.sleep(0.01)

    def test_a_body_without_an_end_after_its_reply(self, port: int) -> None:
        """What nobody wants is not read indefinitely."""
        head = LIVE.replace(b"\r\n\r\n", b"\r\nContent-Length: 1000000000\r\n\r\n")
        with connect(port) as client, pytest.raises(ConnectionError):  # noqa: PT012
            client.sendall(head)
            until = time.monotonic() + DEADLINE_S
            while time.monotonic() < until:
                client.sendall(b"a")
                time.sleep(0.01)

    def test_a_reply_that_is_not_taken(self, port: int) -> None:
        """Its memory is free again; what was on its way comes."""
        with connect(port) as client:
            client.sendall(LIVE.replace(b"/livez", b"/much"))
            assert client.recv(1)
            wait_until(lambda: not is_served(port, client), "the server to close the connection")
            assert len(reply_of(client)) < MUCH

    def test_a_connection_between_two_requests_is_kept(self, port: int) -> None:
        """For much longer, as a scraper or a load balancer expects."""
        with connect(port) as client:
            for _ in range(2):
                ask(client)
                time.sleep(0.6)


class TestRoom:
    """There is room for some connections, and who comes has it."""

    def test_a_new_connection_is_always_served(self, port: int) -> None:
        """However many have come before and say nothing; those that have been idle for longest are closed."""
        with ExitStack() as stack:
            silent = [stack.enter_context(connect(port)) for _ in range(40)]
            assert fetch(port, "/livez").status == 200
            wait_until(lambda: sum(is_served(port, each) for each in silent) <= 4, "the others to be closed")

    def test_a_connection_that_is_used_is_kept(self, port: int) -> None:
        """Of those that there are, it is not the idlest."""
        with ExitStack() as stack:
            used = stack.enter_context(connect(port))
            for _ in range(20):
                stack.enter_context(connect(port))
                ask(used)
                time.sleep(0.05)


class TestHeads:
    """They are bounded."""

    @pytest.mark.parametrize("header", [b"X: " + b"y" * MAX_HEAD_BYTES, b"a:b\r\n" * (MAX_HEAD_BYTES // 2)])
    def test_a_large_one_is_refused(self, header: bytes, port: int) -> None:
        """431, whether it is one header or many."""
        with connect(port) as client:
            client.sendall(LIVE[:-2] + header.removesuffix(b"\r\n") + b"\r\nConnection: close\r\n\r\n")
            head, _, body = reply_of(client).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 431 ")
        assert json.loads(body)["error"].startswith(f"expected a request's head of at most {MAX_HEAD_BYTES} bytes")

    def test_one_of_almost_that_size_is_read(self, port: int) -> None:
        """As of a browser with many cookies."""
        with connect(port) as client:
            client.sendall(LIVE[:-2] + b"Cookie: " + b"y" * (MAX_HEAD_BYTES - 100) + b"\r\nConnection: close\r\n\r\n")
            assert reply_of(client).startswith(b"HTTP/1.1 200 ")

    def test_one_without_an_end_is_ended(self, port: int) -> None:
        """At twice the bound."""
        with connect(port) as client:
            with suppress(ConnectionError):
                client.sendall(LIVE[:-2] + b"X: " + b"y" * 8_000_000)
            assert reply_of(client)[:13] in {b"HTTP/1.1 400 ", b""}  # its end may overtake the reply
            assert not is_served(port, client)


class TestWhatIsNoRequest:
    """Bytes of any kind."""

    @pytest.mark.parametrize(
        "data",
        [
            b"\r\n\r\n",
            b"hello\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        ],
    )
    def test_is_refused_and_closed(self, data: bytes, port: int, log_events: list[EventDict]) -> None:
        """400; it is no event of the log."""
        with connect(port) as client:
            client.send(data)
            assert reply_of(client).startswith(b"HTTP/1.1 400 ")
        assert log_events == []

    def test_what_breaks_after_the_reply_is_no_event(
        self, port: int, log_events: list[EventDict], capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Neither of ours nor of a library."""
        with connect(port) as client:
            client.sendall(LIVE[:-2] + b"Transfer-Encoding: chunked\r\n\r\n")
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
            client.sendall(b"not a chunk\r\n" + LIVE)
            reply_of(client)
        assert log_events == []
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize("target", ["//[x", "/livez?a=%ff&b", "http://[x/livez", "/%0d%0aX:%201", "/\u00ff", "*"])
    def test_odd_targets_are_no_defect(self, target: str, port: int, log_events: list[EventDict]) -> None:
        """They name a path that is there or one that is not."""
        with connect(port) as client:
            client.send(f"GET {target} HTTP/1.0\r\n\r\n".encode("latin-1"))
            assert reply_of(client)[:13] in {b"HTTP/1.1 200 ", b"HTTP/1.1 404 ", b"HTTP/1.1 400 "}
        assert log_events == []

    @pytest.mark.parametrize(
        "header",
        [
            b"Content-Length: 32",
            b"Content-Length : 32",
            b"Content-Length:\r\n 32",
            b"Content-Length: 0, 32",
            b"Content-Length: +32",
            b"Content-Length: many",
            b"A: b\rContent-Length: 32",
            b"Transfer-Encoding : chunked",
        ],
    )
    @pytest.mark.parametrize("method", [b"POST", b"GET"])
    def test_a_body_is_not_taken_for_a_request(self, method: bytes, header: bytes, port: int) -> None:
        """Neither of a method that has one nor of one that has none, however a proxy may read the header."""
        assert len(LIVE) == 32
        with connect(port) as client:
            client.send(method + b" /livez HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n\r\n" + LIVE)
            client.shutdown(socket.SHUT_WR)
            assert reply_of(client).count(b"HTTP/1.1 ") == 1


class TestTheEnd:
    """A server that is stopped."""

    def test_what_has_come_is_answered(self) -> None:
        """Also what nobody has read yet, nor accepted, as the loop was busy."""
        busy, free = threading.Event(), threading.Event()

        async def block(_: Any) -> Response:
            busy.set()
            assert free.wait(DEADLINE_S)
            return Response()

        with ExitStack() as clients:
            with served(read_only([*routes(), Route("/block", block)]), SERVING) as port:
                known, first, late = (clients.enter_context(connect(port)) for _ in range(3))
                ask(known)
                first.sendall(LIVE.replace(b"/livez", b"/block"))
                assert busy.wait(DEADLINE_S)
                new = clients.enter_context(connect(port))
                for each in (known, late, new):
                    each.sendall(LIVE)
                threading.Timer(0.3, free.set).start()
            for each in (known, first, late, new):
                assert reply_of(each).startswith(b"HTTP/1.1 200")

    @pytest.mark.parametrize("said", [b"", b"GET", LIVE, LIVE.replace(b"/livez", b"/much")])
    def test_clients_do_not_hold_it_up(self, said: bytes) -> None:
        """Neither one that says nothing nor one that takes nothing, for longer than a moment."""
        with ExitStack() as stack:
            with served(read_only(routes()), BESIDE_LEARNING) as port:
                client = stack.enter_context(connect(port))
                client.sendall(said)
                time.sleep(0.3)
                began = time.monotonic()
            assert time.monotonic() - began < BESIDE_LEARNING.finish_s + 2
