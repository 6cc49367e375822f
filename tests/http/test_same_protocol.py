"""Clients that would rather speak another protocol are answered in this one, as if they had not said so."""

import json
import socket
from collections.abc import Iterator

import pytest
from support.asgi import FixedReplicas, application_of, learned
from support.served import served
from support.waiting import DEADLINE_S

BODY = json.dumps({"instances": [{"features": {"price": 1.0}}]}).encode()
WISHES = {
    "Java": b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAA\r\nUpgrade: h2c\r\n",
    "browser": b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
    "wishes": b"Connection: upgrade\r\nupgrade: foo\r\nUpgrade: bar/2\r\n",
}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a replica."""
    with served(application_of(FixedReplicas([learned()]))) as found:
        yield found


def answers(port: int, *parts: bytes) -> list[tuple[bytes, bytes]]:
    """Status and body of each reply to what is sent in these parts; the last request closes the connection."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            client.sendall(part)
        while more := client.recv(1 << 16):
            found += more
    replies = [reply.partition(b"\r\n\r\n") for reply in found.split(b"HTTP/1.1 ")[1:]]
    return [(head[:3], body) for head, _, body in replies]


def request(wish: bytes = b"", *, last: bool = True, chunked: bool = False, method: bytes = b"POST") -> bytes:
    """A question to the model."""
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(BODY)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY) if chunked else BODY
    end = b"Connection: close\r\n" if last else b""
    return b"%b /v1/models/clicks:predict HTTP/1.1\r\nHost: a\r\n%b%b%b\r\n\r\n%b" % (method, wish, end, length, body)


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
def test_a_wish_for_another_protocol(wish: bytes, port: int) -> None:
    """The body belongs to the request, however it comes: Java's client has such a wish with each."""
    expected = answers(port, request())
    assert expected[0][0] == b"200"
    for chunked in (False, True):
        asked = request(wish, chunked=chunked)
        assert answers(port, asked) == expected
        assert answers(port, asked[: -len(BODY)], asked[-len(BODY) :]) == expected
        assert answers(port, *(asked[at : at + 1] for at in range(len(asked)))) == expected
        assert answers(port, request(wish, last=False, chunked=chunked) * 3 + asked) == expected * 4
    assert answers(port, request(wish, last=False) + request()) == expected * 2


def test_what_is_refused_is_refused_with_a_wish_too(port: int) -> None:
    """A tunnel, and a head of two lengths."""
    for wish in (b"", WISHES["Java"]):
        assert answers(port, request(wish, method=b"CONNECT"))[0][0] == b"405"
        assert answers(port, request(wish).replace(b"Host: a", b"Content-Length: 1"))[0][0] == b"400"
