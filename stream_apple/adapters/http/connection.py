"""One client's connection: what it has sent and was not answered yet, and what it has still to take."""

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
"""So long each is waited for, before the connection is closed."""


class Connection:
    """A socket that never blocks, and the request on it that is being answered: one at a time.

    received    what the client sent: the request that is read, and what it sent too early
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
        """Wait for something else from now on."""
        self.stage = stage
        self.since = now

    def is_overdue(self, now: float) -> bool:
        """Whether it has been waited for too long."""
        return now - self.since > PATIENCE_S[self.stage]

    def receive(self) -> bool:
        """Take what has come, a few kilobytes at most; False if the client has closed, or is gone."""
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
        """Send what the client's side takes now; True when it has all. OSError if the client is gone."""
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
