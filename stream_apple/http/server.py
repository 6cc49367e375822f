"""The HTTP server of every command: uvicorn, on a thread of its own, with an event loop of its own.

An application of this server never waits in its endpoints: the event loop is the thread of all clients. What takes
long is rendered on another thread (`render_thread`), and none of these threads uses a Kafka client.
"""

import asyncio
import logging
import socket
import threading
import time
from typing import Any, NamedTuple, Self, cast

import structlog
import uvicorn
from starlette.types import ASGIApp

from stream_apple.http.application import HEADERS
from stream_apple.http.connections import ConnectionWatch
from stream_apple.http.middleware import MAX_HEAD_BYTES
from stream_apple.http.work_share import WorkShare

_KEEP_ALIVE_S = 75  # longer than the 60 s for which common load balancers keep a connection that is idle
_BACKLOG = 2_048  # when it is full, a connection waits seconds for its next attempt
_RECEIVE_BUFFER = 65_536  # bytes that one read takes at most: while many send bodies, a round of the loop stays short
_ACCEPTED_AT_ONCE = 16  # uvloop accepts one connection of a socket in a round, so the server has copies of its own
_TICK_S = 0.1
_SHORT_TICK_S, _LONGEST_REST_S = 0.01, 0.1  # so that a probe, which takes three or four rounds, is answered soon
_LAST_ROUNDS, _ROUND_S = 5, 0.01

_log = structlog.get_logger()


class ServerLimits(NamedTuple):
    """Bounds of a server.

    connections  that are kept; while there are more, those without progress for longest are closed
    finish_s     seconds in which requests that have come may be answered after `stop`
    share        (share of a core, seconds of work at once) of the event loop; None: as much as it needs
    """

    connections: int
    finish_s: int
    share: tuple[float, float] | None = None


BESIDE_LEARNING = ServerLimits(connections=32, finish_s=1, share=(0.05, 0.5))
"""For a process whose work is on other threads, and comes first."""
SERVING = ServerLimits(connections=2_048, finish_s=10)
"""For a process whose work is to answer."""


class HttpServer:
    """Answers by `application` on `listener`, and closes it in the end; use as a context.

    port  on which it listens
    """

    def __init__(self, application: ASGIApp, listener: socket.socket, limits: ServerLimits = BESIDE_LEARNING) -> None:
        # What uvicorn logs is caused by what clients send, so that they could fill the log.
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL + 1)
        self.port: int = listener.getsockname()[1]
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)  # accepted ones inherit it
        self._listener = listener
        self._limits = limits
        self._uvicorn = uvicorn.Server(
            uvicorn.Config(
                application,
                loop="uvloop",
                http="h11",  # the one that bounds a head; it ends a head without an end at twice the bound
                h11_max_incomplete_event_size=2 * MAX_HEAD_BYTES,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                headers=[*HEADERS.items()],
                backlog=_BACKLOG,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=limits.finish_s,
            )
        )
        self._stopping = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join()

    def stop(self) -> None:
        """Take no more requests; those that have come are answered. Safe in a handler of signals."""
        self._stopping = True

    def wait(self) -> None:
        """Return when the server has stopped; raise what has ended it, if that was not `stop`."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._uvicorn.config.get_loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001  `wait` raises it
            self._failure = error
            _log.error("http_failed", exc_info=True)
        finally:
            self._listener.close()

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(_report)
        watch = ConnectionWatch(cast("Any", self._uvicorn.server_state.connections), self._limits.connections)
        share = None if self._limits.share is None else WorkShare(*self._limits.share)
        copies = [self._listener.dup() for _ in range(_ACCEPTED_AT_ONCE - 1)]
        serving = asyncio.create_task(self._uvicorn.serve([self._listener, *copies]))
        while not (self._stopping or serving.done()):
            watch.look(time.monotonic())
            rest_s = 0.0 if share is None else min(share.rest_s(), _LONGEST_REST_S)
            if rest_s:
                time.sleep(rest_s)  # noqa: ASYNC251  the thread shall rest: the processor is for those that learn
            await asyncio.sleep(_SHORT_TICK_S if rest_s else _TICK_S)
        # uvicorn closes connections without a request in progress. First read what has come on them.
        for _ in range(_LAST_ROUNDS):
            await asyncio.sleep(_ROUND_S)
        self._uvicorn.should_exit = True
        await serving
        for connection in list(self._uvicorn.server_state.connections):
            connection.transport.abort()  # its client has not taken the reply in time
        await asyncio.sleep(_ROUND_S)


def _report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of the event loop, unless it is of one connection, which is closed: clients cause those."""
    if "protocol" not in context:
        _log.error("http_failed", exc_info=context.get("exception"))
