"""A loop's transactions, one after the other: when one is due, and what is done in doubt.

Here alone transactions are begun, committed and aborted at the broker. What is in one, and when, a loop decides.
"""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog

from stream_apple.errors import BrokerError
from stream_apple.stream.log.ports import AbortableError, Broker, Committed
from stream_apple.stream.loop.watchers import MemberRecorder

MAX_ABORTS = 10
"""Aborted transactions in a row after which a restart of the process is better than another try."""

_log = structlog.get_logger()


class CommitSettings(NamedTuple):
    """What makes a commit due, whichever comes first: so many outputs, or so many seconds since the first."""

    outputs: int
    interval_s: float


class Transaction:
    """Stands for one transaction of the broker after the other, of which at most one is open.

    open  whether there is one
    """

    def __init__(
        self,
        broker: Broker,
        settings: CommitSettings,
        metrics: MemberRecorder,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.open = False
        self._settings = settings
        self._broker = broker
        self._metrics = metrics
        self._now = now
        self._since = 0.0
        self._outputs = 0
        self._failures = 0

    @property
    def due(self) -> bool:
        """Whether it has been open for long enough, or holds enough outputs, to be committed."""
        return self.open and (
            self._outputs >= self._settings.outputs or self._now() - self._since >= self._settings.interval_s
        )

    def begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if not self.open:
            self.open = True
            self._since = self._now()
            self._outputs = 0
            self._broker.begin()

    def add(self, outputs: int) -> None:
        """Count so many more messages in the open transaction."""
        self._outputs += outputs

    def commit(self, progress: Mapping[int, Committed]) -> None:
        """Make the open transaction durable, with the offset of each partition; that ends a row of failures."""
        self._broker.commit(progress)
        self.open = False
        self._failures = 0

    def abort(self, reason: str) -> None:
        """Abort the transaction, if one is open: no reader ever sees anything of it."""
        if self.open:
            _log.warning("transaction_aborted", reason=reason)
            self._metrics.aborted()
            self.open = False
            self._broker.abort()

    def start_over(self, error: AbortableError) -> None:
        """Join the group anew after an abort, the one way out of doubt; BrokerError after MAX_ABORTS in a row."""
        self._failures += 1
        if self._failures >= MAX_ABORTS:
            raise BrokerError(f"{MAX_ABORTS} transactions in a row failed; the last one: {error}") from error
        self._broker.rejoin()
