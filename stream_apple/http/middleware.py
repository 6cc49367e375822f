"""What stands before each application: the bound of a request's head, and the end of a refused body."""

import asyncio
from contextlib import suppress
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_apple.http.replies import json_reply

MAX_HEAD_BYTES = 65_536
"""The largest head of a request: a browser may send all the cookies that it has for a host."""
REST_S = 2.0
"""Seconds for the rest of a body that is refused before all of it has come."""
_TURN_S = 0.02  # for the next part of it
_OF_A_BODY = (b"content-length", b"transfer-encoding")


class HeadLimit:
    """Middleware: a request with a head of more than MAX_HEAD_BYTES is answered with status 431."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        size = len(scope["raw_path"]) + len(scope["query_string"])
        size += sum(len(name) + len(value) for name, value in scope["headers"])
        if size > MAX_HEAD_BYTES:
            facts = {"error": f"expected a request's head of at most {MAX_HEAD_BYTES} bytes, found {size}"}
            await json_reply(facts, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class Lingering:
    """Middleware: lets the rest of a body come before the end of a reply that was made without it.

    A socket that is closed with unread bytes takes the reply back: the client would see a reset connection, and not why
    its request was refused. One body at a time is read so: what nobody wants may not take the time of others.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        names = {name for name, _ in scope["headers"]}
        coming = not names.isdisjoint(_OF_A_BODY) and b"expect" not in names  # who expects sends no body if refused

        async def receive_noting() -> Message:
            nonlocal coming
            message = await receive()
            coming = coming and bool(message.get("more_body"))
            return message

        async def send_at_the_end(message: Message) -> None:
            if coming and message["type"] == "http.response.body" and not message.get("more_body"):
                with suppress(TimeoutError):
                    async with asyncio.timeout(REST_S):
                        while coming:
                            await self._take_turn(receive_noting)
            await send(message)

        await self._app(scope, receive_noting, send_at_the_end)

    async def _take_turn(self, receive: Receive) -> None:
        async with self._turn:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TURN_S):
                    await receive()
