"""How long a call of Kafka is repeated before it counts as failed."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaException

from stream_apple.adapters.aside import AbandonedError, Aside
from stream_apple.adapters.verdicts import is_transient, verdict
from stream_apple.errors import BrokerError

DEADLINE_S = 60.0
"""For one call of the port, retries included. Longer than a transaction may stay open (see `clients.py`)."""
SLICE_S = 2.0
"""Of the deadline: between slices, signals are seen."""
HURRY_S = 10.0
"""Of the 30 s that Kubernetes gives by default."""

_T = TypeVar("_T")


class Patience:
    """The deadline of each call, which a signal handler can shorten for all of them."""

    def __init__(self) -> None:
        self._leave_by = float("inf")
        self._waiting_since: float | None = None

    def hurry(self) -> None:
        """From now on wait no longer for Kafka than a supervisor waits for us."""
        self._leave_by = min(self._leave_by, time.monotonic() + HURRY_S)

    @property
    def is_over(self) -> bool:
        """Whether we were asked to leave, and have waited long enough since."""
        return time.monotonic() >= self._leave_by

    @property
    def waiting_s(self) -> float:
        """For how long the call that is being made now has been, repetitions included; 0 without one."""
        since = self._waiting_since
        return 0.0 if since is None else time.monotonic() - since

    def insist(
        self,
        what: str,
        call: Callable[[], _T],
        aside: Aside | None = None,
        on_trouble: Callable[[], None] | None = None,
    ) -> _T:
        """The result of `call`, repeated on transient errors until the deadline; run `aside` if it may block.

        `on_trouble` is called before the first repetition, and may raise what makes repeating vain.
        """
        self._waiting_since = time.monotonic()
        try:
            return self._repeat(what, call, aside, on_trouble)
        finally:
            self._waiting_since = None

    def _repeat(
        self, what: str, call: Callable[[], _T], aside: Aside | None, on_trouble: Callable[[], None] | None
    ) -> _T:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                if aside is None:
                    return call()
                return aside.run(call, lambda: self.is_over or time.monotonic() >= deadline)
            except KafkaException as failure:
                error = failure.args[0]
                if not is_transient(error):
                    raise verdict(error, what) from failure
                reason = error.str()
                cause: Exception = failure
            except AbandonedError as failure:
                reason, cause = "the call is still blocked", failure
            if self.is_over:
                raise BrokerError(f"{what}: asked to stop while waiting for Kafka: {reason}") from cause
            if time.monotonic() >= deadline:
                raise BrokerError(f"{what}: no success within {DEADLINE_S:g} s: {reason}") from cause
            if on_trouble is not None:
                on_trouble()
                on_trouble = None
