"""What the site makes of what `serve` says, and of its silence."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from stream_apple.demo.loop.asking import AnswerError, Asker


class Replica(HTTPServer):
    """Gives the answer that it is told to; keeps the bodies of what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = (200, b"")
        self.asked: list[tuple[str, bytes]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Replica

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, body))
        status, text = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Say nothing."""


@pytest.fixture
def replica() -> Iterator[Replica]:
    """A server with a thread of its own."""
    with Replica() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_asks_for_one_instance_of_its_partition(replica: Replica) -> None:
    """In JSON; the answer is the log-odds."""
    replica.answer = (200, b'{"predictions": [{"prediction": -0.75, "probability": 0.32}]}')
    with closing(Asker(replica.server_port, "demo", 3)) as asker:
        assert asker.ask({"ad=wine": 1.0}) == -0.75
    ((path, body),) = replica.asked
    assert path == "/v1/models/demo:predict"
    assert body == b'{"instances": [{"features": {"ad=wine": 1.0}, "partition": 3}]}'


def test_without_a_model_there_is_no_answer(replica: Replica) -> None:
    """Status 503 is no error: the replica waits for the first commit."""
    with closing(Asker(replica.server_port, "demo", 0)) as asker:
        replica.answer = (503, b'{"error": "no model"}')
        assert asker.ask({}) is None
        replica.answer = (200, b'{"predictions": [{"prediction": 1}]}')
        assert asker.ask({}) == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        (400, b'{"error": "instance 0: ..."}'),
        (200, b"<html>"),
        (200, b'{"predictions": []}'),
        (200, b'{"predictions": [{}]}'),
        (200, b'{"predictions": [{"prediction": null}]}'),
        (200, b"[]"),
    ],
)
def test_any_other_answer_is_an_error(replica: Replica, answer: tuple[int, bytes]) -> None:
    """It names the status, and what was said."""
    replica.answer = answer
    with (
        closing(Asker(replica.server_port, "demo", 0)) as asker,
        pytest.raises(AnswerError, match=f"status {answer[0]}"),
    ):
        asker.ask({})


def test_nobody_there_is_no_answer() -> None:
    """The site goes on without; who has ended is told by who looks after the processes."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert Asker(port, "demo", 0).ask({}) is None
