"""Reads the bodies of requests into bounded memory, and within bounded time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.requests import Request

BODY_S = 10.0
"""Seconds for all of a body."""

_LEAST = 65_536  # bytes that uvicorn holds for a connection before it stops reading; so it bounds their number, too


class Bodies:
    """Bounds the bodies that are in memory.

    max_body     bytes of one
    max_pending  bytes of all together, of which each takes at least 64 KiB
    body_s       seconds for all of one to come
    """

    def __init__(self, max_body: int, max_pending: int, body_s: float = BODY_S) -> None:
        self._max_body = max_body
        self._max_pending = max_pending
        self._body_s = body_s
        self._pending = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body, which counts as pending until the context is left.

        HTTPException with status 408, 413, or 503 if it does not come, is too large, or there is no room.
        """
        announced = request.headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) > self._max_body:
            raise self._too_large()
        reserved = self._reserve(max(int(announced), _LEAST))
        parts, size = [], 0
        try:
            try:
                async with asyncio.timeout(self._body_s):
                    async for part in request.stream():
                        size += len(part)
                        if size > self._max_body:
                            raise self._too_large()
                        if size > reserved:
                            reserved += self._reserve(size - reserved)
                        parts.append(part)
            except TimeoutError:
                told = f"expected the whole body within {self._body_s:g} s, found {size} bytes"
                raise HTTPException(408, told) from None
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            del parts
            yield body
        finally:
            self._pending -= reserved

    def _reserve(self, size: int) -> int:
        """Count so many bytes as pending, and return their number."""
        if self._pending + size > self._max_pending:
            raise HTTPException(
                503,
                f"expected bodies of at most {self._max_pending} bytes in all requests together, found more; ask "
                "again later, or raise serve.max_pending_body_bytes",
                {"Retry-After": "1"},
            )
        self._pending += size
        return size

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"expected a body of at most {self._max_body} bytes, found a larger one")
