"""The identity of a worker, which no two processes of a machine have at once.

If two processes have one identity, Kafka fences the older one, as a restart requires. On one machine the newer one is
refused instead, by a lock that the kernel releases whenever its holder dies: a socket in the abstract namespace, which
needs no file and no permission. Containers with a network of their own count as machines of their own.
"""

import errno
import hashlib
import re
import socket
import struct
from contextlib import suppress

from stream_apple.config import Config
from stream_apple.config.sources import variable
from stream_apple.errors import BrokerError, ConfigurationError, FencedError

MACHINE = ""
"""A part of the names of locks: processes in which it differs behave as if on different machines."""

_MOST_ON_A_MACHINE = 1000
_LONGEST_HOST = 190  # characters; an identifier has at most 200
_CREDENTIALS = struct.Struct("3i")  # of ucred: process, user and group
_ASKED_S = 1.0
_WAITING = 4096
"""How many processes may ask who holds a lock: no connection is accepted, so each stays in the queue."""

_held: list[socket.socket] = []  # the locks, which are held as long as the process lives

_SETTING = variable("worker", "id")


class TakenError(Exception):
    """Another process holds the lock; `pid` is None if it can't be seen from here."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(pid)
        self.pid = pid


def first_name() -> str:
    """Return the automatic worker.id of a process that is alone on this machine."""
    return _automatic(0)


def named(config: Config) -> Config:
    """Return the configuration with a worker.id: the one that is set, else the first automatic one that is free here.

    ConfigurationError if none is free.
    """
    worker = config.worker
    if worker.id:
        return config
    for number in range(_MOST_ON_A_MACHINE):
        name = _automatic(number)
        with suppress(TakenError):
            _lock("automatic", worker.group, name)
            return config.with_worker(id=name)
    raise ConfigurationError(
        f"worker.id: expected one of {_MOST_ON_A_MACHINE} automatic names to be free for a worker of group "
        f"{worker.group} on this machine, found none; {_SETTING} sets another"
    )


def hold(config: Config, cluster: str) -> None:
    """Hold the worker's identity on this machine until the process ends; ConfigurationError if another process does."""
    worker = config.worker
    try:
        # The lock's name has the transactional id, which names group and worker, and by which Kafka fences.
        _lock("worker", cluster, worker.transactional_id)
    except TakenError as taken:
        who = "one that can't be seen from here" if taken.pid is None else f"pid {taken.pid}"
        raise ConfigurationError(
            f"worker.id: expected no other process on this machine that works as {worker.id} of group {worker.group}, "
            f"found {who}, which goes on undisturbed. To work beside it, set {_SETTING}={worker.id}-2, or {_SETTING}= "
            f"for an automatic name; to replace it, stop it first"
        ) from None


def explained(error: FencedError, config: Config, open_s: float) -> BrokerError:
    """Return an error that explains to the operator how this worker was fenced.

    open_s  for how many seconds it had a transaction open then
    """
    worker = config.worker
    who = f"worker.id {worker.id} of group {worker.group} (transactional id {worker.transactional_id})"
    limit_s = float(config.kafka.get("transaction.timeout.ms", 45_000)) / 1000
    if open_s > limit_s:
        return BrokerError(
            f"{who} had a transaction open for {open_s:.0f} s, and the brokers have ended it after {limit_s:g} s "
            f"(transaction.timeout.ms), unless another process with this identity has: this one was frozen, starved or "
            f"throttled by a quota ({error})"
        )
    return FencedError(
        f"{who} belongs to another process now, which has started with the same identity, here or on another machine: "
        f"Kafka obeys the newer one, and this one has stopped. Each worker needs an id of its own: set worker.id "
        f"({_SETTING}) in one of the two. A restart of this one would end the other. If there is none, a broker has "
        f"come back in the middle of a transaction: then restart this one ({error})"
    )


def _automatic(number: int) -> str:
    host = re.sub(r"[^a-zA-Z0-9._-]", "-", socket.gethostname())[:_LONGEST_HOST]
    return f"{host or 'worker'}-{number}"


def _lock(*parts: str) -> None:
    """Hold the lock of this name until the process ends; TakenError if another process does."""
    digest = hashlib.sha256("\0".join((MACHINE, *parts)).encode()).hexdigest()
    address = f"\0stream-apple/{digest}"
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(address)
        lock.listen(_WAITING)
    except OSError as error:
        lock.close()
        if error.errno == errno.EADDRINUSE:
            raise TakenError(_holder(address)) from None
        return  # a sandbox may have no such sockets; then nothing is locked, as between different machines
    _held.append(lock)


def _holder(address: str) -> int | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, suppress(OSError):
        asking.settimeout(_ASKED_S)
        asking.connect(address)
        found = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid: int = _CREDENTIALS.unpack(found)[0]
        return pid or None  # 0 stands for a process in another PID namespace
    return None
