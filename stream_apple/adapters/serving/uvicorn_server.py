"""The HTTP server of `serve`: uvicorn, on a socket that is taken before, ended by whoever holds it."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette

from stream_apple.adapters.serving.patience import BoundedConnection

_FINISH_S = 10
_KEEP_ALIVE_S = 75
_MOST_CONNECTIONS = 2_048
_TICKS_OF_A_LOOK = 10  # of a tenth of a second
_LAST_TURNS, _TURN_S = 5, 0.01


class ServingServer(uvicorn.Server):
    """Serves an application until `stop`; signals are for the process to see to."""

    def __init__(self, application: Starlette) -> None:
        # Its warnings are about what clients send: they are told, and can't fill the log.
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        super().__init__(
            uvicorn.Config(
                application,
                loop="uvloop",
                http=BoundedConnection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_FINISH_S,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Close connections whose clients are waited for too long."""
        if counter % _TICKS_OF_A_LOOK == 0:
            now = asyncio.get_running_loop().time()
            for connection in self.server_state.connections.copy():
                if isinstance(connection, BoundedConnection):
                    connection.look(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Read what has come before connections are closed: one with bytes that nobody has read is reset."""
        for _ in range(_LAST_TURNS):  # of the loop: to accept, and then to read
            await asyncio.sleep(_TURN_S)
        await super().shutdown(sockets)

    def serve_on(self, listener: socket.socket) -> None:
        """Serve until `stop`; requests that have come are answered then."""
        self.run([listener])

    def stop(self) -> None:
        """Take no more requests; safe in a handler of signals."""
        self.should_exit = True
