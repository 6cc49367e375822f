"""Whether the cluster can be reached, as far as that can be known while there is nothing to do."""

import time
from collections.abc import Callable

import structlog

from stream_apple.errors import BrokerError

OUTAGE_S = 300.0
"""How long a worker waits for its brokers: by then a supervisor, and whoever it wakes, should know."""
PROBE_EVERY_S = 3.0
PROBE_S = 0.5

_log = structlog.get_logger()


class Outage:
    """Turns the client's complaints into one log line when all brokers are gone and one when they are back.

    address  of the cluster, for the messages
    probe    whether a broker answers, within PROBE_S seconds

    A complaint alone proves nothing: librdkafka has one also for idle connections that a broker has closed.
    """

    def __init__(
        self,
        address: str,
        probe: Callable[[], bool],
        limit_s: float = OUTAGE_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._probe = probe
        self._limit_s = limit_s
        self._now = now
        self._complaint: str | None = None
        self._since: float | None = None
        self._next_probe = 0.0

    @property
    def reachable(self) -> bool:
        """False from the first probe without an answer until the next answer."""
        return self._since is None

    def suspect(self, complaint: str) -> None:
        """The client has told that it reaches no broker, and why. Does not block."""
        self._complaint = complaint

    def check(self) -> None:
        """Ask a broker now and then while there is doubt; BrokerError if none has answered for the limit."""
        if self._complaint is None or self._now() < self._next_probe:
            return
        asked = self._now()
        answered = self._probe()
        self._next_probe = self._now() + PROBE_EVERY_S
        if answered:
            self.reached()
            return
        if self._since is None:
            self._since = asked
            _log.warning("brokers_unreachable", address=self._address, error=self._complaint)
        silent_s = self._now() - self._since
        if silent_s >= self._limit_s:
            raise BrokerError(
                f"kafka: expected an answer from {self._address} within {self._limit_s:g} s, "
                f"found none for {silent_s:.0f} s: {self._complaint}"
            )

    def reached(self) -> None:
        """A broker has answered."""
        if self._complaint is None:
            return
        if self._since is not None:
            _log.info("brokers_reachable", address=self._address, seconds=round(self._now() - self._since, 1))
        self._complaint = self._since = None
        self._next_probe = 0.0
