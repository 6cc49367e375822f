"""A TCP proxy between clients and one broker, which knows Kafka's requests by name and does them harm.

A rule names a request and the harm: see `Harm`. The proxy keeps the order of a connection's requests, as TCP does. It
counts requests and records each harm, so that a test can assert that its fault has happened.
"""

import random
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from queue import Queue
from threading import Event, Lock, Thread
from typing import Self

from support.ports import free_ports
from support.waiting import DEADLINE_S, wait_until

_NAMES = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    18: "ApiVersions",
    22: "InitProducerId",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    28: "TxnOffsetCommit",
}
_FLEXIBLE_END_TXN = 3
ANY = "any request"


class Harm(StrEnum):
    """What a rule does to a request."""

    DELAY = "delay"  # deliver it later; later requests of the connection wait behind it
    HOLD = "hold"  # cut the client's connection, and deliver the request on the old connection to the broker later
    SILENCE = "silence"  # the same, but the client's connection stays open and silent
    DROP_ANSWER = "drop answer"  # deliver it, and cut the client's connection instead of answering
    DUPLICATE = "duplicate"  # deliver it twice, and swallow the second answer
    CUT = "cut"  # cut the connection, and never deliver it


@dataclass(frozen=True)
class Request:
    """One request as the client sent it: its name, where it came from, and the bytes with the length before them."""

    name: str
    client_id: str
    frame: bytes
    arrived: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class Rule:
    """Does `harm` to the first `times` requests of this name.

    seconds, jitter  delay, drawn from seconds ± jitter; for HOLD and SILENCE, when to deliver without `deliver`
    struck           the requests that were harmed
    """

    name: str
    harm: Harm
    times: float = 1
    seconds: float = float("inf")
    jitter: float = 0.0
    struck: list[Request] = field(default_factory=list)
    released: Event = field(default_factory=Event)
    answered: Event = field(default_factory=Event)

    def takes(self, request: Request) -> bool:
        """Whether the rule harms this request."""
        return self.name in (ANY, request.name) and len(self.struck) < self.times

    def wait(self) -> None:
        """Wait until it has harmed a request."""
        wait_until(lambda: self.struck, f"a request {self.name} that the rule harms")

    def deliver(self) -> None:
        """Deliver what is held, and wait until the broker has answered the first of it."""
        self.released.set()
        assert self.answered.wait(DEADLINE_S), f"the broker did not answer the late {self.name}"


class Proxy:
    """Listens on `port` of 127.0.0.1, also while its broker is down; a context that ends all connections.

    seen             how many requests of each name have arrived; `EndTxn commit` and `EndTxn abort` count separately
    before_delivery  called with each request that no rule takes, before the broker gets it
    after_answer     called with each request that the broker has answered, before the client is
    """

    def __init__(self, target: int, port: int | None = None, seed: int = 0) -> None:
        self.port = port or free_ports(1)[0]
        self.seen: Counter[str] = Counter()
        self.rules: list[Rule] = []
        self.draw = random.Random(seed)
        self.open = Event()
        self.open.set()
        self.lock = Lock()
        self.before_delivery: Callable[[Request], object] = _ignore
        self.after_answer: Callable[[Request], object] = _ignore
        self._target = target
        self._connections: list[_Connection] = []
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    def strike(
        self, name: str, harm: Harm, times: float = 1, seconds: float = float("inf"), jitter: float = 0.0
    ) -> Rule:
        """Harm the next `times` requests of this name; the first rule that takes a request counts."""
        rule = Rule(name, harm, times, seconds, jitter)
        with self.lock:
            self.rules.append(rule)
        return rule

    def deliver_after(self, rule: Rule, name: str) -> None:
        """Deliver what the rule holds after the next answer to a request of this name, before the client sees it."""
        self.after_answer = _delivery(rule, name)

    def deliver_before(self, rule: Rule, name: str) -> None:
        """Deliver what the rule holds before the broker gets the next request of this name."""
        self.before_delivery = _delivery(rule, name)

    def black_hole(self) -> None:
        """Let no byte through in either direction; connections stay open, and new ones are accepted."""
        self.open.clear()

    def restore(self) -> None:
        """Let bytes through again, those that came meanwhile first; all rules and deliveries end."""
        self.before_delivery = self.after_answer = _ignore
        with self.lock:
            self.rules.clear()
        self.open.set()

    def close(self) -> None:
        """End all connections and stop listening."""
        self.open.set()
        self._listener.close()
        for connection in self._connections:
            connection.end()

    def rule_for(self, request: Request) -> Rule | None:
        """Count the request, and record it with the rule that harms it, if one does."""
        with self.lock:
            self.seen[request.name] += 1
            rule = next((rule for rule in self.rules if rule.takes(request)), None)
            if rule is not None:
                rule.struck.append(request)
            return rule

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    upstream = socket.create_connection(("127.0.0.1", self._target), 5)
                    upstream.settimeout(None)
                except OSError:
                    client.close()
                    continue
                self._connections.append(_Connection(self, client, upstream))


def _ignore(_: Request) -> None:
    pass


def _delivery(rule: Rule, name: str) -> Callable[[Request], object]:
    def deliver(request: Request) -> None:
        if request.name == name and not rule.released.is_set():
            rule.deliver()

    return deliver


class _Connection:
    """A client's connection, and the connection to the broker that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket, upstream: socket.socket) -> None:
        self._proxy, self._client, self._upstream = proxy, client, upstream
        self._requests: Queue[Request | None] = Queue()
        # The broker answers the requests of a connection in their order: each answer is of the oldest request here.
        self._unanswered: deque[tuple[Request, bool, Rule | None]] = deque()
        self._is_cut = False
        for work in (self._read_requests, self._send_requests, self._read_answers):
            Thread(target=work, daemon=True).start()

    def end(self) -> None:
        """Close both sides."""
        for side in (self._client, self._upstream):
            _shut(side)

    def _read_requests(self) -> None:
        with suppress(OSError):
            while frame := _read_frame(self._client):
                self._requests.put(_parse(frame))
        self._requests.put(None)

    def _send_requests(self) -> None:
        with suppress(OSError):
            while request := self._requests.get():
                self._proxy.open.wait()
                if self._is_cut:
                    return
                self._treat(request, self._proxy.rule_for(request))
            if not self._is_cut:
                _shut(self._upstream)

    def _treat(self, request: Request, rule: Rule | None) -> None:
        harm = None if rule is None else rule.harm
        if rule is None:
            self._proxy.before_delivery(request)
        if rule is not None and harm is Harm.DELAY:
            due = request.arrived + rule.seconds + self._proxy.draw.uniform(-rule.jitter, rule.jitter)
            time.sleep(max(due - time.monotonic(), 0))
        if harm in (Harm.HOLD, Harm.CUT):
            self._cut()
        if rule is not None and harm in (Harm.HOLD, Harm.SILENCE):
            rule.released.wait(None if rule.seconds == float("inf") else rule.seconds)
        if harm is Harm.CUT:
            _shut(self._upstream)
            return
        for relayed in (harm is not Harm.DROP_ANSWER, False)[: 2 if harm is Harm.DUPLICATE else 1]:
            self._unanswered.append((request, relayed, rule))
            self._upstream.sendall(request.frame)

    def _read_answers(self) -> None:
        with suppress(OSError):
            while frame := _read_frame(self._upstream):
                self._proxy.open.wait()
                request, relayed, rule = self._unanswered.popleft()
                if rule is not None:
                    rule.answered.set()
                if not self._is_cut:
                    self._proxy.after_answer(request)
                if rule is not None and rule.harm is Harm.DROP_ANSWER:
                    self._cut()
                if relayed and not self._is_cut:
                    with suppress(OSError):
                        self._client.sendall(frame)
        _shut(self._client)

    def _cut(self) -> None:
        self._is_cut = True
        _shut(self._client)


def _shut(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()


def _read_frame(side: socket.socket) -> bytes:
    """One message with its length before it; empty when the other side has closed."""
    head = _read(side, 4)
    return head and head + _read(side, struct.unpack(">i", head)[0])


def _read(side: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = side.recv(size - len(found))
        if not part:
            return b""
        found += part
    return bytes(found)


def _parse(frame: bytes) -> Request:
    key, version, _, length = struct.unpack_from(">hhih", frame, 4)
    name = _NAMES.get(key, f"request {key}")
    if name == "EndTxn":
        # The decision comes last; flexible versions have an empty list of tags after it.
        decision = frame[-2] if version >= _FLEXIBLE_END_TXN else frame[-1]
        name = "EndTxn commit" if decision else "EndTxn abort"
    return Request(name, frame[14 : 14 + max(length, 0)].decode(), frame)
