"""Serves all connections of the port on one thread, which never waits for a client, and keeps to its share of a core.

A round takes at most one request of each connection. So however many requests a client sends, and whether or not it
reads the replies, the others have their turn, and the thread's share of a core bounds the work. Probes are answered
here; requests that take longer go to the threads that render.
"""

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus

import structlog

from stream_apple.adapters.http.connection import Connection, Stage
from stream_apple.adapters.http.messages import (
    METHODS,
    Head,
    MalformedRequestError,
    Reply,
    Route,
    end_of_head,
    json_reply,
    parse_head,
    to_bytes,
)
from stream_apple.adapters.http.render_thread import RenderThread, answer
from stream_apple.adapters.http.work_share import WorkShare

MOST_CONNECTIONS = 32
"""When there are more, the one that has been idle for longest is closed: a probe's is always new."""
_ACCEPTED_AT_ONCE = 8
_SWEEP_S = 0.5
_SEND_BUFFER = 1 << 18
_LONGEST_PATH_SHOWN = 100
_EVENTS = {
    Stage.REQUEST: selectors.EVENT_READ,
    Stage.READER: selectors.EVENT_WRITE,
    Stage.GOODBYE: selectors.EVENT_READ,
}


_log = structlog.get_logger()


class Reception:
    """Accepts, reads and writes. `run` is a thread's target; `stop` and `deliver` may be called by other threads.

    thread_of  returns the thread that answers a path; None: this thread does
    """

    def __init__(
        self,
        listener: socket.socket,
        paths: Mapping[str, Route],
        share: WorkShare,
        thread_of: Callable[[str], RenderThread | None],
    ) -> None:
        self._listener = listener
        self._paths = paths
        self._share = share
        self._thread_of = thread_of
        self._connections: set[Connection] = set()
        self._ripe: list[Connection] = []  # with a request that came before the reply to the one before
        self._replies: deque[tuple[Connection, Reply]] = deque()
        self._stopping = threading.Event()
        self._swept_at = 0.0
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)  # noqa: FBT003  the library's signature
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)  # accepted ones inherit it
        for end in (self._wake, self._woken):
            end.setblocking(False)  # noqa: FBT003
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def deliver(self, connection: Connection, reply: Reply) -> None:
        """Queue a rendered reply for its connection; any thread may call it."""
        self._replies.append((connection, reply))
        self._notify()

    def stop(self) -> None:
        """Make `run` return; any thread may call it."""
        self._stopping.set()
        self._notify()

    def _notify(self) -> None:
        with suppress(OSError):  # it is awake, or has ended
            self._wake.send(b"\0")

    def run(self) -> None:
        """Serve until `stop`, then close everything."""
        while not self._stopping.is_set():
            self._round()
            self._stopping.wait(self._share.rest_s())
        for connection in list(self._connections):
            self._close(connection)
        for end in (self._selector, self._listener, self._wake, self._woken):
            end.close()

    def _round(self) -> None:
        busy = self._ripe or self._replies
        events = self._selector.select(0.0 if busy else _SWEEP_S if self._connections else None)
        ripe, self._ripe = self._ripe, []
        for connection in ripe:
            self._attend(connection, self._answer_next)
        for key, _ in events:
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._woken:
                self._woken.recv(4096)
            elif key.data not in ripe:
                self._attend(key.data, self._serve)
        while self._replies:
            connection, reply = self._replies.popleft()
            self._attend(connection, partial(self._reply, reply=reply))
        self._sweep()

    def _attend(self, connection: Connection, step: Callable[[Connection], None]) -> None:
        """Take a step with a connection, unless it is closed; log an unexpected error, which closes only this one."""
        try:
            if connection.open:
                step(connection)
        except Exception:  # noqa: BLE001  whatever it is, it is told
            _log.error("http_failed", exc_info=True)
            self._close(connection)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                peer, _address = self._listener.accept()
            except OSError:  # none is left, or the client has gone, or there are no descriptors
                return
            if len(self._connections) >= MOST_CONNECTIONS:
                self._close(min(self._connections, key=lambda connection: connection.since))
            connection = Connection(peer, time.monotonic())
            self._connections.add(connection)
            self._selector.register(peer, selectors.EVENT_READ, connection)

    def _serve(self, connection: Connection) -> None:
        if connection.stage is Stage.READER:
            self._send(connection)
        elif not connection.receive():
            self._close(connection)
        elif connection.stage is Stage.REQUEST:
            self._answer_next(connection)

    def _answer_next(self, connection: Connection) -> None:
        """Answer the request that is complete, or go on waiting for it."""
        try:
            end = end_of_head(connection.received)
            if end is None:
                return
            head = parse_head(bytes(connection.received[:end]))
        except MalformedRequestError as error:
            connection.persistent = False
            self._reply(connection, json_reply(HTTPStatus.BAD_REQUEST, {"status": str(error)}))
            return
        del connection.received[:end]
        connection.persistent = head.persistent
        connection.with_body = head.method != "HEAD"
        reply = self._reply_to(connection, head)
        if reply is not None:
            self._reply(connection, reply)

    def _reply_to(self, connection: Connection, head: Head) -> Reply | None:
        """Return the reply, or None if another thread will deliver it."""
        route = self._paths.get(head.path)
        if route is None:
            facts = {"status": f"no such path: {head.path[:_LONGEST_PATH_SHOWN]}", "paths": sorted(self._paths)}
            return json_reply(HTTPStatus.NOT_FOUND, facts)
        if head.method not in METHODS:
            expected = f"expected {' or '.join(METHODS)}: this port is for reading only"
            return json_reply(HTTPStatus.METHOD_NOT_ALLOWED, {"status": expected})
        thread = self._thread_of(head.path)
        if thread is None:
            return answer(route, head)
        if not thread.submit(connection, route, head):
            return json_reply(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "too many requests wait"})
        self._enter(connection, Stage.ANSWER)
        return None

    def _reply(self, connection: Connection, reply: Reply) -> None:
        connection.put(to_bytes(reply, with_body=connection.with_body, persistent=connection.persistent))
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        try:
            complete = connection.send()
            if complete and not connection.persistent:
                connection.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(connection)
            return
        if not complete:
            self._enter(connection, Stage.READER)
        elif not connection.persistent:
            self._enter(connection, Stage.GOODBYE)
        else:
            self._enter(connection, Stage.REQUEST)
            if connection.received:
                self._ripe.append(connection)

    def _enter(self, connection: Connection, stage: Stage) -> None:
        """Begin a stage, and have the selector wait for it; parts of a reply don't renew the reply's time."""
        before, now = connection.stage, time.monotonic()
        if stage is before is Stage.READER:
            return
        connection.enter(stage, now)
        events, known = _EVENTS.get(stage), _EVENTS.get(before)
        if events == known:
            return
        if events is None:
            self._selector.unregister(connection.socket)
        elif known is None:
            self._selector.register(connection.socket, events, connection)
        else:
            self._selector.modify(connection.socket, events, connection)

    def _sweep(self) -> None:
        now = time.monotonic()
        if now - self._swept_at < _SWEEP_S:
            return
        self._swept_at = now
        for connection in [each for each in self._connections if each.is_overdue(now)]:
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection.stage in _EVENTS:
            self._selector.unregister(connection.socket)
        connection.close()
