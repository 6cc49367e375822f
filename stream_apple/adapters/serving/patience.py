"""How long a replica waits for its clients: no connection is kept for one that says nothing, or takes nothing.

uvicorn alone bounds the wait between two requests. Whoever opened connections and sent nothing, or a byte now and then,
or never read a reply, would keep them for ever; and when there are as many as there may be, probes are turned away.
"""

import asyncio
import itertools
from contextlib import suppress
from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_apple.adapters.serving.same_protocol import SameProtocol

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

HEAD_S = 10.0
"""Seconds for all of a request's head to come, from the connection's beginning or the head's first byte on."""
READER_S = 10.0
"""Seconds without the client's having taken a byte of a reply that waits for it."""
REST_S = 2.0
"""Seconds for the rest of a body that is refused before it has come."""

_ROOM = 64
"""Of so many connections one is closed where there are too many: to look for it takes a look at all."""
_moments = itertools.count()


class BoundedConnection(SameProtocol):
    """A connection that is closed when its client is waited for too long; `look` is to be called now and then."""

    _head_since: float | None = None
    _heard: int = 0  # a number that is larger if its client has said something later
    _moved_at: float = 0.0
    _unsent: int = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head; where there are too many connections, close those that have been idle for longest."""
        super().connection_made(transport)
        self._heard = next(_moments)
        self._head_since = self._moved_at = self.loop.time()
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._make_room(1 + self.limit_concurrency // _ROOM)

    def _make_room(self, count: int) -> None:
        others = (each for each in self.connections if isinstance(each, BoundedConnection) and each is not self)
        for each in nsmallest(count, (each for each in others if each.is_idle), key=attrgetter("_heard")):
            each.transport.abort()
            self.connections.discard(each)  # at once: the loop may hear of its end after the next request

    @property
    def is_idle(self) -> bool:
        """Whether it is open, and no request of it is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first
        return not self.transport.is_closing() and (cycle is None or cycle.response_complete)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; after a reply it is that of a new one."""
        self._heard = next(_moments)
        if self.is_idle:
            self._expect_head()
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Wait for the rest of a head, which may have begun in the same data as the request before."""
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Have the request answered, and wait for its head no longer."""
        self._head_since = None
        super().on_headers_complete()

    def _expect_head(self) -> None:
        if self._head_since is None:
            self._head_since = self.loop.time()

    def look(self, now: float) -> None:
        """Close the connection, without more ado, if its client has been waited for too long."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent != self._unsent:
            self._unsent, self._moved_at = unsent, now
        waited = now - self._head_since if self._head_since is not None and self.is_idle else 0.0
        if waited > HEAD_S or now - self._moved_at > READER_S:
            self.transport.abort()


class Lingering:
    """Lets the rest of a body come before the end of a reply that was made without it.

    A socket that is closed with bytes that nobody has read takes the reply back: the client would see a connection
    that is reset, and not why it was refused.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        expects = any(name == b"expect" for name, _ in scope.get("headers", ()))  # it sends no body if refused
        coming = not expects

        async def receiving() -> Message:
            nonlocal coming
            message = await receive()
            coming = coming and bool(message.get("more_body"))
            return message

        async def rest() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(REST_S):
                    while coming:
                        await receiving()

        async def sending(message: Message) -> None:
            if coming and message["type"] == "http.response.body" and not message.get("more_body"):
                await rest()
            await send(message)

        await self._app(scope, receiving, sending)
