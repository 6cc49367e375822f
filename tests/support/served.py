"""An application behind its server, on a port."""

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from stream_apple.http.listener import listen
from stream_apple.http.server import SERVING, HttpServer, ServerLimits


@contextmanager
def served(application: ASGIApp, limits: ServerLimits = SERVING) -> Iterator[int]:
    """The port, while the application is served."""
    with HttpServer(application, listen("127.0.0.1", 0), limits) as server:
        yield server.port
