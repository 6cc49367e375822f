"""One client's connection: received bytes without an answer yet, and reply bytes that are not sent yet."""

import socket
from enum import Enum

_TAKEN = 4096  # bytes at once


class Stage(Enum):
    """Names what a connection waits for next."""

    REQUEST = "the client's next request, complete"
    ANSWER = "a thread that renders"
    READER = "the client, to take the whole reply"
    GOODBYE = "the client's end: what it still sends to a side that is closed must not destroy the reply"


PATIENCE_S = {Stage.REQUEST: 10.0, Stage.ANSWER: 60.0, Stage.READER: 10.0, Stage.GOODBYE: 1.0}
"""Seconds to wait in each stage before the connection is closed."""


class Connection:
    """A socket that never blocks, and its request that is being answered, one at a time.

    received    the bytes of the request that is being read, and of later ones
    persistent  whether it stays open after the reply
    with_body   whether the request wants the reply's body
    """

    def __init__(self, peer: socket.socket, now: float) -> None:
        peer.setblocking(False)  # noqa: FBT003  the library's signature
        self.socket = peer
        self.received = bytearray()
        self.persistent = True
        self.with_body = True
        self.open = True
        self.stage = Stage.REQUEST
        self.since = now
        self._outgoing = memoryview(b"")

    def enter(self, stage: Stage, now: float) -> None:
        """Begin to wait for `stage`."""
        self.stage = stage
        self.since = now

    def is_overdue(self, now: float) -> bool:
        """Whether the present stage has lasted for too long."""
        return now - self.since > PATIENCE_S[self.stage]

    def receive(self) -> bool:
        """Receive a few kilobytes at most; return False if the client has closed, or is gone."""
        try:
            data = self.socket.recv(_TAKEN)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if self.stage is Stage.REQUEST:
            self.received += data
        return bool(data)

    def put(self, message: bytes) -> None:
        """Queue these bytes for `send`."""
        self._outgoing = memoryview(message)

    def send(self) -> bool:
        """Send as much as the socket takes now; return whether all is sent. OSError if the client is gone."""
        try:
            self._outgoing = self._outgoing[self.socket.send(self._outgoing) :]
        except BlockingIOError:
            return False
        return not self._outgoing

    def close(self) -> None:
        """Close the socket; calling it again does nothing."""
        self.open = False
        self._outgoing = memoryview(b"")
        self.received.clear()
        self.socket.close()
