"""An application behind its server, on a port."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from starlette.applications import Starlette

from stream_apple.adapters.http.listener import listen
from stream_apple.adapters.serving.uvicorn_server import ServingServer


@contextmanager
def served(application: Starlette) -> Iterator[int]:
    """The port, while the application is served."""
    server, listener = ServingServer(application), listen("127.0.0.1", 0)
    with closing(listener):
        thread = threading.Thread(target=server.serve_on, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        server.stop()
        thread.join()
