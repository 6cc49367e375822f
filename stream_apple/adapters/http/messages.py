"""HTTP/1.1 for a server that is only read: parses requests from bytes, and makes bytes of replies, without sockets.

A request has no body here. If it announces one, it is answered and its connection closed, so that a head on a
connection is always followed by the next head.
"""

import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs

MOST_HEAD = 16_384
"""Bytes of a request's head: a browser may send all the cookies that it has for a host."""
MOST_TOP = 200
"""The greatest number of monomials, products and parents of a model that can be asked for."""
METHODS = ("GET", "HEAD")

_LONGEST_ACCEPT = 1_000
_KEPT_S = 0.5  # the worker writes most of what is shown once a second
_MOST_KEPT = 64
# A header is a name, a colon right after it, and a value on the same line: what a proxy may read otherwise is refused.
_HEADERS = rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]++:[^\0\r\n]*+\r?\n)*+\r?\n"
_REQUEST = re.compile(rb"([!-~]+) ([!-~]+) HTTP/1\.([01])\r?\n" + _HEADERS)
_END = re.compile(rb"\r?\n\r?\n")
_ACCEPT = re.compile(rb"^accept:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_CLOSE = re.compile(rb"^connection:[^\r\n]*\bclose\b", re.IGNORECASE | re.MULTILINE)
_BODY = re.compile(rb"^(?:transfer-encoding:|content-length:(?![ \t]*0+[ \t]*\r?$))", re.IGNORECASE | re.MULTILINE)
_HOST = re.compile(r"\Ahttp://[^/?#]*", re.IGNORECASE)
PAGE_HEADERS = {
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
"""What browsers are told with every reply of a page's server."""
_ALWAYS = "".join(f"{name}: {value}\r\n" for name, value in PAGE_HEADERS.items())


class Request(NamedTuple):
    """A request for a path: its Accept header, and the query's parameters with all of their values."""

    accept: str
    query: Mapping[str, Sequence[str]]


class Reply(NamedTuple):
    """Holds the server's answer: status, headers and body."""

    status: HTTPStatus
    content_type: str
    body: bytes


Route = Callable[[Request], Reply]


class ReplyCache:
    """Keeps replies for a moment, for further clients that ask the same; only one thread may use it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._replies: dict[Hashable, tuple[float, Reply]] = {}

    def reply(self, question: Hashable, render: Callable[[], Reply]) -> Reply:
        """Return what `render` does, or what it returned for this question less than half a second ago."""
        known = self._replies.get(question)
        if known is None or self._now() >= known[0]:
            if len(self._replies) >= _MOST_KEPT:
                self._replies.clear()
            known = self._replies[question] = (self._now() + _KEPT_S, render())
        return known[1]


class Head(NamedTuple):
    """The head of a request, parsed only as far as is needed to know who answers it.

    persistent  whether the connection may serve another request after this one
    """

    method: str
    path: str
    query: str
    accept: str
    persistent: bool

    def request(self) -> Request:
        """Return the part of the head that a route may look at."""
        return Request(self.accept, parse_qs(self.query, keep_blank_values=True))


class MalformedRequestError(Exception):
    """The received bytes are no request of HTTP/1.0 or 1.1; the message says what was expected."""


def end_of_head(received: bytes | bytearray) -> int | None:
    """Return the length in bytes of the first head, with its empty line; None if it is not complete.

    MalformedRequestError if it is longer than MOST_HEAD.
    """
    found = _END.search(received)
    if found is None and len(received) > MOST_HEAD:
        raise MalformedRequestError(f"expected a head of at most {MOST_HEAD} bytes")
    return None if found is None else found.end()


def parse_head(data: bytes) -> Head:
    """Return the head in these bytes; MalformedRequestError if they are no complete head."""
    found = _REQUEST.fullmatch(data)
    if found is None:
        raise MalformedRequestError("expected a request line such as GET / HTTP/1.1, and headers such as Host: name")
    method, target, minor = (part.decode("ascii") for part in found.groups())
    path, _, query = _HOST.sub("", target).partition("#")[0].partition("?")
    accept = _ACCEPT.search(data)
    return Head(
        method,
        path or "/",
        query,
        "" if accept is None else accept[1][:_LONGEST_ACCEPT].decode("latin-1"),
        persistent=minor == "1" and method in METHODS and not _CLOSE.search(data) and not _BODY.search(data),
    )


def to_bytes(reply: Reply, *, with_body: bool, persistent: bool) -> bytes:
    """Return the reply's bytes; `persistent` says whether the connection stays open after it."""
    allow = f"Allow: {', '.join(METHODS)}\r\n" if reply.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\n"
        f"Date: {formatdate(usegmt=True)}\r\n"
        f"Content-Type: {reply.content_type}\r\n"
        f"Content-Length: {len(reply.body)}\r\n"
        f"{allow}{_ALWAYS}{'' if persistent else 'Connection: close' + chr(13) + chr(10)}\r\n"
    ).encode("ascii")
    return head + reply.body if with_body else head


def json_reply(status: HTTPStatus, facts: dict[str, Any]) -> Reply:
    """Return a reply with these facts, which are JSON types."""
    return Reply(status, "application/json", json.dumps(facts).encode() + b"\n")
