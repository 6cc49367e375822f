"""Clients that do what they should not, over real sockets: what they cost is counted, not timed."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import pytest
from structlog.typing import EventDict
from support.local_http import fetch
from support.waiting import wait_until

from stream_apple.adapters.http.connection import PATIENCE_S, Stage
from stream_apple.adapters.http.listener import listen
from stream_apple.adapters.http.messages import MOST_HEAD, Reply, Request, Route
from stream_apple.adapters.http.reception import MOST_CONNECTIONS
from stream_apple.adapters.http.server import METRICS_THREAD, PAGES_THREAD, RECEPTION, Server

COST_S = 0.001
BOUNDS = {"/livez": RECEPTION, "/metrics": METRICS_THREAD, "/": PAGES_THREAD}
PIPELINING = """
import socket, sys
port, connections = int(sys.argv[1]), int(sys.argv[2])
requests = b"".join(b"GET " + path.encode() + b" HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" for path in sys.argv[3:]) * 200
peers = []
while True:
    while len(peers) < connections:
        peer = socket.create_connection(("127.0.0.1", port))
        peer.settimeout(0.01)
        peers.append(peer)
    for peer in list(peers):
        try:
            peer.send(requests)
        except TimeoutError:
            pass
        except OSError:
            peers.remove(peer)
"""


class Work:
    """Routes whose every call is so many milliseconds of work, as a thread's clock would say."""

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        self.paths: dict[str, Route] = dict.fromkeys(BOUNDS, self._answer)

    def _answer(self, _: Request) -> Reply:
        self.calls[threading.get_ident()] += 1
        return Reply(HTTPStatus.OK, "text/plain", b"x" * 500)

    def used(self) -> float:
        """Seconds of work of the calling thread."""
        return self.calls[threading.get_ident()] * COST_S


@contextmanager
def server(paths: dict[str, Route], **options: object) -> Iterator[int]:
    """The port of a server of these paths."""
    made = Server(listen("127.0.0.1", 0), paths, **options)  # type: ignore[arg-type]
    with made:
        yield made.port


def connected(port: int) -> socket.socket:
    """A client's socket."""
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def is_served(port: int, peer: socket.socket) -> bool:
    """Whether the server's side of this connection is open; the client can't see it before it has read everything."""
    sides = f":{port:04X}", f":{peer.getsockname()[1]:04X}"
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text(encoding="ascii").splitlines()]
    return any((own[-5:], other[-5:]) == sides and state == "01" for _, own, other, state, *_ in lines)


def offer(peer: socket.socket, path: str) -> int:
    """Send requests one after the other until no more are taken, without ever reading; how many there were."""
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    peer.settimeout(0.3)
    sent = 0
    with suppress(OSError):
        while True:
            sent += peer.send(request * 1000)
    return sent // len(request)


def read_all(peer: socket.socket) -> bytes:
    """What comes until the server closes."""
    found = b""
    with suppress(ConnectionError):
        while data := peer.recv(1 << 16):
            found += data
    return found


class TestPipelining:
    """Requests that are sent without reading a reply."""

    @pytest.mark.parametrize("path", list(BOUNDS))
    def test_what_is_answered_is_bounded(self, path: str) -> None:
        """Many thousands are offered; answered are those that a thread's share of a core allows, and no more."""
        work = Work()
        share, burst_s = BOUNDS[path]
        begun = time.monotonic()
        with server(work.paths, used=work.used) as port, ExitStack() as stack:
            peers = [stack.enter_context(closing(connected(port))) for _ in range(4)]
            offered = sum(offer(peer, path) for peer in peers)
            answered, seconds = work.calls.total(), time.monotonic() - begun
        allowed = (burst_s + share * seconds) / COST_S
        assert 0 < answered <= allowed + len(peers)
        assert offered > 10 * allowed

    def test_a_probe_is_answered_meanwhile(self) -> None:
        """Beside as many connections as there may be, which ask for everything and read nothing."""
        work = Work()
        with server(work.paths) as port, ExitStack() as stack:
            for number in range(MOST_CONNECTIONS - 1):
                peer = stack.enter_context(closing(connected(port)))
                peer.settimeout(0.01)
                with suppress(OSError):
                    peer.send(f"GET {list(BOUNDS)[number % 3]} HTTP/1.1\r\n\r\n".encode() * 20_000)
            for _ in range(5):
                assert fetch(port, "/livez").status == 200
                assert fetch(port, "/metrics").status == 200

    def test_it_leaves_the_processor_alone(self) -> None:
        """An attack by a process of its own, on all paths: this one uses a small part of a core."""
        work = Work()
        with server(work.paths) as port:
            command = [sys.executable, "-c", PIPELINING, str(port), "16", *BOUNDS]
            attack = subprocess.Popen(command)
            try:
                wait_until(lambda: work.calls.total() > 100, "the attack")
                begun, used = time.monotonic(), time.process_time()
                for _ in range(8):
                    assert fetch(port, "/livez").status == 200
                    time.sleep(0.25)
                used, seconds = time.process_time() - used, time.monotonic() - begun
            finally:
                attack.kill()
                attack.wait()
        assert used <= 0.25 * seconds

    def test_all_are_answered_in_order(self) -> None:
        """Requests that came too early are no error: each has its reply, also where another thread makes it."""
        paths: dict[str, Route] = {
            path: lambda _, path=path: Reply(HTTPStatus.OK, "text/plain", path.encode())  # type: ignore[misc]
            for path in BOUNDS
        }
        asked = ["/", "/livez", "/metrics", "/livez", "/", "/livez"]
        with server(paths) as port, closing(connected(port)) as peer:
            last = len(asked) - 1
            for number, path in enumerate(asked):
                close = "Connection: close\r\n" if number == last else ""
                peer.send(f"GET {path} HTTP/1.1\r\n{close}\r\n".encode())
            replies = read_all(peer).split(b"HTTP/1.1 200 OK\r\n")[1:]
        assert [reply.partition(b"\r\n\r\n")[2].decode() for reply in replies] == asked


class TestSlowClients:
    """Those that keep a connection and do not use it."""

    def test_who_does_not_read_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """When its time is over it finds a part of the reply, and the end."""
        monkeypatch.setitem(PATIENCE_S, Stage.READER, 0.2)
        body = b"x" * (32 << 20)
        with (
            server({"/": lambda _: Reply(HTTPStatus.OK, "text/plain", body)}) as port,
            closing(connected(port)) as peer,
        ):
            peer.send(b"GET / HTTP/1.1\r\n\r\n")
            assert peer.recv(1)
            wait_until(lambda: not is_served(port, peer), "the server to close the connection")
            assert len(read_all(peer)) < len(body)

    def test_who_says_nothing_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With half a request, and with none."""
        monkeypatch.setitem(PATIENCE_S, Stage.REQUEST, 0.2)
        with server({}) as port:
            for text in (b"", b"GET / HT"):
                with closing(connected(port)) as peer:
                    peer.send(text)
                    assert read_all(peer) == b""

    def test_a_new_connection_takes_the_place_of_an_idle_one(self) -> None:
        """Beyond the most that there may be, the one that has been idle for longest goes."""
        work = Work()
        with server(work.paths) as port, ExitStack() as stack:
            peers = [stack.enter_context(closing(connected(port))) for _ in range(MOST_CONNECTIONS + 3)]
            assert fetch(port, "/livez").status == 200
            assert [read_all(peer) for peer in peers[:3]] == [b"", b"", b""]
            peers[-1].send(b"GET /livez HTTP/1.0\r\n\r\n")
            assert read_all(peers[-1]).startswith(b"HTTP/1.1 200 OK\r\n")

    def test_a_reply_that_takes_long_holds_up_nobody_else(self) -> None:
        """While a page is being made, probes and metrics are answered; then the page comes."""
        made = threading.Event()
        work = Work()

        def page(_: Request) -> Reply:
            made.wait(30)
            return Reply(HTTPStatus.OK, "text/plain", b"page")

        with server({**work.paths, "/": page}) as port, closing(connected(port)) as peer:
            peer.send(b"GET / HTTP/1.0\r\n\r\n")
            assert [fetch(port, path).status for path in ("/livez", "/metrics")] == [200, 200]
            made.set()
            assert read_all(peer).endswith(b"\r\n\r\npage")


class TestWhatIsNoRequest:
    """Bytes of any kind."""

    @pytest.mark.parametrize(
        "data",
        [
            b"\r\n\r\n",
            b"hello\r\n\r\n",
            b"GET / HTTP/2.0\r\n\r\n",
            b"GET  / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: " + b"y" * MOST_HEAD,
        ],
    )
    def test_is_told_and_closed(self, data: bytes, log_events: list[EventDict]) -> None:
        """400, with what was expected; it is no event of the log."""
        with server({}) as port, closing(connected(port)) as peer:
            peer.send(data)
            head, _, body = read_all(peer).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert json.loads(body)["status"].startswith("expected ")
        assert log_events == []

    @pytest.mark.parametrize("target", ["//[x", "/livez?a=%ff&b", "http://[x/livez", "/%0d%0aX:%201"])
    def test_odd_targets_are_no_defect(self, target: str, log_events: list[EventDict]) -> None:
        """They name a path that is there or one that is not."""
        with server(Work().paths) as port, closing(connected(port)) as peer:
            peer.send(f"GET {target} HTTP/1.0\r\n\r\n".encode())
            assert read_all(peer)[:13] in {b"HTTP/1.1 200 ", b"HTTP/1.1 404 "}
        assert log_events == []

    @pytest.mark.parametrize(
        "header",
        [
            b"Content-Length: 23",
            b"Content-Length : 23",
            b"Content-Length:\r\n 23",
            b"Content-Length: 0, 23",
            b"Content-Length: +23",
            b"Content-Length: many",
            b"A: b\rContent-Length: 23",
            b"Transfer-Encoding: chunked",
            b"Transfer-Encoding : chunked",
        ],
    )
    @pytest.mark.parametrize("method", [b"POST", b"GET"])
    def test_a_body_is_not_taken_for_a_request(self, method: bytes, header: bytes) -> None:
        """Neither of a method that has one nor of one that has none, however a proxy may read the header."""
        smuggled = b"GET /livez HTTP/1.1\r\n\r\n"
        assert len(smuggled) == 23
        with server(Work().paths) as port, closing(connected(port)) as peer:
            peer.send(method + b" /livez HTTP/1.1\r\n" + header + b"\r\n\r\n" + smuggled)
            assert read_all(peer).count(b"HTTP/1.1 ") == 1

    def test_a_defect_of_a_route_is_logged(self, log_events: list[EventDict]) -> None:
        """500, an event, and the next request is answered on the same connection."""

        def broken(_: Request) -> Reply:
            raise ZeroDivisionError

        with server({**Work().paths, "/": broken}) as port, closing(connected(port)) as peer:
            peer.send(b"GET / HTTP/1.1\r\n\r\n" + b"GET /livez HTTP/1.0\r\n\r\n")
            replies = read_all(peer)
        assert [line for line in replies.splitlines() if line.startswith(b"HTTP/1.1 ")] == [
            b"HTTP/1.1 500 Internal Server Error",
            b"HTTP/1.1 200 OK",
        ]
        assert [event["event"] for event in log_events] == ["http_failed"]
