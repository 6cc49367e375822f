"""A broker that names no broker: what a real one answers for a moment while it comes back, as long as one likes."""

import socketserver
import struct
import threading
from typing import Self

_METADATA, _API_VERSIONS = 3, 18
_UNSUPPORTED_VERSION = 35
_LATEST = {_METADATA: 4, _API_VERSIONS: 0}


class ForgetfulBroker:
    """Answers which versions it speaks, and which brokers there are and which topic; a context.

    names_itself  whether it names itself as the one broker, or none
    """

    def __init__(self, topic: str) -> None:
        self.names_itself = True
        self._topic = topic
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            """Reads requests of one connection."""

            def handle(self) -> None:
                """Answer until the client has gone."""
                while head := self._exactly(4):
                    (size,) = struct.unpack(">i", head)
                    key, version, correlation = struct.unpack(">hhi", self._exactly(size)[:8])
                    body = struct.pack(">i", correlation) + broker.answer(key, version)
                    self.request.sendall(struct.pack(">i", len(body)) + body)

            def _exactly(self, size: int) -> bytes:
                parts = b""
                while len(parts) < size and (part := self.request.recv(size - len(parts))):
                    parts += part
                return parts

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def answer(self, key: int, version: int) -> bytes:
        """Return the body of an answer, by the protocol's oldest encodings."""
        if key == _API_VERSIONS:
            known = b"".join(struct.pack(">hhh", each, 0, latest) for each, latest in _LATEST.items())
            return struct.pack(">hi", 0 if version == 0 else _UNSUPPORTED_VERSION, len(_LATEST)) + known
        assert key == _METADATA, f"expected questions about metadata, found {key} in version {version}"
        host, _, port = self.bootstrap.partition(":")
        itself = struct.pack(">i", 1) + _text(host) + struct.pack(">ih", int(port), -1)
        brokers = struct.pack(">i", 1) + itself if self.names_itself else struct.pack(">i", 0)
        leader, error = (1, 0) if self.names_itself else (-1, 5)
        partition = struct.pack(">hiiiiii", error, 0, leader, 1, 1, 1, 1)
        topic = struct.pack(">h", 0) + _text(self._topic) + struct.pack(">bi", 0, 1) + partition
        controller = struct.pack(">i", 1 if self.names_itself else -1)
        throttled = struct.pack(">i", 0) if version >= 3 else b""
        cluster = _text("forgetful") if version >= 2 else b""
        return throttled + brokers + cluster + controller + struct.pack(">i", 1) + topic


def _text(told: str) -> bytes:
    return struct.pack(">h", len(told)) + told.encode()
