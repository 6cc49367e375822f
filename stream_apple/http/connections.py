"""Watches the connections of a server, and closes those of clients that keep it waiting.

uvicorn bounds only the wait between two requests. A client that sends a head without an end, or never reads its reply,
would keep its connection indefinitely.
"""

from collections.abc import Collection
from enum import Enum
from heapq import nsmallest
from typing import NamedTuple

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


class Awaited(Enum):
    """Names what a connection waits for."""

    HEAD = "all of a request's head, or the rest of a body whose request was answered before it came"
    REPLY = "the application; it bounds the wait for a body"
    READER = "the client, to take some byte of a reply"
    NEXT_REQUEST = "the first byte of another request; uvicorn bounds it"


PATIENCE_S = {Awaited.HEAD: 10.0, Awaited.READER: 10.0}
"""Seconds to wait without progress before the connection is closed."""


class _Progress(NamedTuple):
    """Holds what changes whenever a connection makes progress.

    request  identity of the latest request
    unsent   bytes of replies that the client has not taken
    """

    awaited: Awaited
    request: int
    unsent: int


class ConnectionWatch:
    """Keeps track of `connections`, of which it keeps `most`; call `look` several times a second."""

    def __init__(self, connections: Collection[H11Protocol], most: int) -> None:
        self._connections = connections
        self._most = most
        self._seen: dict[H11Protocol, tuple[_Progress, float]] = {}

    def look(self, now: float) -> None:
        """Close connections that are overdue, and those without progress for longest, if there are too many.

        A connection that was not there at the last look is never one too many: that of a probe is always new.
        """
        before, self._seen = self._seen, {}
        for connection in self._connections:
            progress = _progress(connection)
            known = before.get(connection)
            self._seen[connection] = known if known is not None and known[0] == progress else (progress, now)
        for connection, (progress, since) in self._seen.items():
            if now - since > PATIENCE_S.get(progress.awaited, float("inf")):
                connection.transport.abort()
        excess = len(self._seen) - self._most
        if excess > 0:
            old = (each for each in self._seen if each in before)
            for connection in nsmallest(excess, old, key=lambda each: self._seen[each][1]):
                connection.transport.abort()


def _progress(connection: H11Protocol) -> _Progress:
    request: RequestResponseCycle | None = connection.cycle
    unsent = connection.transport.get_write_buffer_size()
    if unsent:
        awaited = Awaited.READER
    elif request is not None and not request.response_complete:
        awaited = Awaited.REPLY
    elif request is not None and connection.timeout_keep_alive_task is not None:
        awaited = Awaited.NEXT_REQUEST
    else:
        awaited = Awaited.HEAD
    return _Progress(awaited, id(request), unsent)
