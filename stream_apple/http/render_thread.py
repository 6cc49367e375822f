"""A thread that renders the replies that take long, one at a time, within its share of a core."""

import asyncio
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from http import HTTPStatus
from queue import SimpleQueue

from starlette.exceptions import HTTPException
from starlette.responses import Response

from stream_apple.http.application import KeptReplies
from stream_apple.http.work_share import WorkShare

PAGES_SHARE = (0.06, 1.0)
"""Share of a core, and seconds of work at once."""
MOST_WAITING = 64
"""How many requests may wait for their replies, including those of clients that are gone."""
LONGEST_WAIT_S = 60.0


class RenderThread:
    """Renders replies in the order of the requests.

    The thread ends with the process, which does not wait for the present reply: a successor may be waiting.
    """

    def __init__(self, share: WorkShare, kept: KeptReplies) -> None:
        self._share = share
        self._kept = kept
        self._tasks: SimpleQueue[tuple[Callable[[], Response], Future[Response]]] = SimpleQueue()
        threading.Thread(target=self._run, name="http-pages", daemon=True).start()

    async def reply(self, question: Hashable, render: Callable[[], Response]) -> Response:
        """Return what `render` returns on the thread, or what it returned for this question a moment ago.

        HTTPException with status 503 if too many requests wait, or this one has waited for too long.
        """
        found: Response | None = self._kept.get(question)
        if found is not None:
            return found
        busy = HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests wait", {"Retry-After": "1"})
        if self._tasks.qsize() >= MOST_WAITING:
            raise busy
        future = Future[Response]()
        self._tasks.put((render, future))
        try:
            async with asyncio.timeout(LONGEST_WAIT_S):
                found = await asyncio.wrap_future(future)
        except TimeoutError:
            raise busy from None
        self._kept.put(question, found)
        return found

    def _run(self) -> None:
        while True:
            render, future = self._tasks.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(render())
                except Exception as error:  # noqa: BLE001  whoever asked has it
                    future.set_exception(error)
                time.sleep(self._share.rest_s())
