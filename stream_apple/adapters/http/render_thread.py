"""A thread that renders the replies that take long, one at a time, within its share of a core."""

import threading
from collections.abc import Callable
from http import HTTPStatus
from queue import SimpleQueue

import structlog

from stream_apple.adapters.http.connection import Connection
from stream_apple.adapters.http.messages import Head, Reply, Route, json_reply
from stream_apple.adapters.http.work_share import WorkShare

MOST_WAITING = 256
"""How many requests may wait, including those of clients that are gone."""

_log = structlog.get_logger()


class RenderThread:
    """Answers requests in their order; `done` is called on this thread with each connection and its reply."""

    def __init__(self, name: str, share: WorkShare, done: Callable[[Connection, Reply], None]) -> None:
        self._share = share
        self._done = done
        self._tasks: SimpleQueue[tuple[Connection, Route, Head] | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread that renders replies."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no further reply. It does not wait for the present one, as a successor of the process waits."""
        self._stopping.set()
        self._tasks.put(None)

    def submit(self, connection: Connection, route: Route, head: Head) -> bool:
        """Queue the request; return False if too many wait."""
        if self._tasks.qsize() >= MOST_WAITING:
            return False
        self._tasks.put((connection, route, head))
        return True

    def _run(self) -> None:
        while not self._stopping.is_set() and (task := self._tasks.get()) is not None:
            connection, route, head = task
            if connection.open:
                self._done(connection, answer(route, head))
                self._stopping.wait(self._share.rest_s())


def answer(route: Route, head: Head) -> Reply:
    """Return the route's reply; an unexpected error is logged, and answered, and does not end the thread."""
    try:
        return route(head.request())
    except Exception:  # noqa: BLE001  whatever it is, it is told
        _log.error("http_failed", exc_info=True)
        return json_reply(HTTPStatus.INTERNAL_SERVER_ERROR, {"status": "a defect, see http_failed in the log"})
