"""Repeating calls of Kafka: after which errors, how far apart, and for how long.

Every call in this folder that is repeated is repeated by `RetryPolicy.attempts`, as a call that fails at once must not
be made thousands of times a second.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from stream_apple.adapters.kafka.errors import as_kafka_exception, call_error, is_transient
from stream_apple.adapters.kafka.executor import AbandonableExecutor, AbandonedError
from stream_apple.errors import BrokerError
from stream_apple.stream.log.ports import AbortableError

DEADLINE_S = 60.0
"""The longest time for one call of the port, with its repetitions, unless the call has a shorter limit. A transaction
may not be open for that long, by `client_properties.py`. `connectivity.OUTAGE_S` is the limit for a whole outage."""
ATTEMPT_TIMEOUT_S = 2.0
"""Timeout of a single attempt; signal handlers run between attempts."""
SHORTENED_DEADLINE_S = 10.0
"""What remains of each deadline once the worker has been told to stop. Kubernetes gives it 30 s by default."""
FIRST_INTERVAL_S = 0.05
MAX_INTERVAL_S = 1.0
"""The longest interval; it is shorter than ATTEMPT_TIMEOUT_S, so a call that has timed out is repeated at once."""
SLOW_S = 5.0
"""A call that has waited for so long is told of, and the brokers count as unreachable meanwhile."""

_SLEEP_S = 0.1  # how soon a pause ends after its deadline has been shortened

_T = TypeVar("_T")


class RetryPolicy:
    """Attempts with exponential backoff until a deadline, which a signal handler can shorten for all calls.

    deadline_s  of each series of attempts
    failure     the error at the deadline; it is BrokerError, whatever this says, once the deadline has been shortened
    slow        is told what a call does that has waited for SLOW_S, once until a call succeeds
    address     of the brokers, for errors; "" if something else tells it
    """

    def __init__(
        self,
        deadline_s: float = DEADLINE_S,
        *,
        failure: type[AbortableError | BrokerError] = BrokerError,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        slow: Callable[[str], None] = lambda _doing: None,
        address: str = "",
    ) -> None:
        self.deadline_s = deadline_s
        self._failure = failure
        self._now = now
        self._sleep = sleep
        self._slow = slow
        self._at = f" at {address}" if address else ""
        self._slow_told = False
        self._doing = ""
        self._stop_by = float("inf")
        self._waiting_since: float | None = None

    def shorten_deadline(self) -> None:
        """Wait for Kafka, from now on, no longer than a supervisor waits for this worker. Signal handlers call this."""
        # This must use no lock or event: a handler may interrupt the thread that holds the lock.
        self._stop_by = min(self._stop_by, self._now() + SHORTENED_DEADLINE_S)

    @property
    def waiting_s(self) -> float:
        """Return for how many seconds the present call, with its repetitions, has waited; 0 if there is none."""
        since = self._waiting_since
        return 0.0 if since is None else self._now() - since

    @contextmanager
    def waiting(self, doing: str, limit_s: float | None = None) -> Iterator[Callable[[], bool]]:
        """Inside this context, `waiting_s` counts, which other threads may read; contexts may be nested.

        It yields a function for the loop that waits to call in each turn: whether the deadline has passed.

        limit_s  until the deadline; None: the policy's
        """
        outer, self._doing = self._waiting_since, doing
        self._waiting_since = self._now() if outer is None else outer
        try:
            yield partial(self._is_expired, self._now() + (self.deadline_s if limit_s is None else limit_s))
            self._slow_told = False
        finally:
            self._waiting_since = outer

    def _is_expired(self, deadline: float) -> bool:
        """Return whether the deadline, or the shortened one, has passed; tell of a call that has waited for SLOW_S."""
        if self.waiting_s >= SLOW_S and not self._slow_told:
            self._slow_told = True
            self._slow(self._doing)
        return self._now() >= min(deadline, self._stop_by)

    def given_up(self, what: str, reason: str, limit_s: float | None = None) -> AbortableError | BrokerError:
        """Return the error of a call that has not succeeded before the deadline, or before the shortened one."""
        if self._now() >= self._stop_by:
            return BrokerError(f"{what}: asked to stop while waiting for Kafka: {reason}")
        limit_s = self.deadline_s if limit_s is None else limit_s
        return self._failure(f"{what}: no success within {limit_s:g} s{self._at}: {reason}")

    def attempts(self, limit_s: float | None = None) -> Iterator[Callable[[], bool]]:
        """Yield once for each attempt that may be made, until the deadline; at least once.

        The first attempt is made at once. Each further one begins, at random, a half to a whole interval after the last
        began; the interval is 0.05 s at first, and doubles up to 1 s. So a call that took longer is repeated at once.
        The random part spreads workers that lost the same broker.

        Each item is a function that returns whether the deadline has passed, for attempts that can be cut short.

        limit_s  until the deadline; None: the policy's
        """
        deadline = self._now() + (self.deadline_s if limit_s is None else limit_s)
        is_expired, interval = partial(self._is_expired, deadline), FIRST_INTERVAL_S
        while True:
            begun = self._now()
            yield is_expired
            self._pause(min(begun + interval * random.uniform(0.5, 1.0), deadline))  # noqa: S311  no secret
            if is_expired():
                return
            interval = min(2 * interval, MAX_INTERVAL_S)

    def pause(self, seconds: float) -> None:
        """Wait, until the deadline is shortened at the latest."""
        self._pause(self._now() + seconds)

    def _pause(self, until: float) -> None:
        stop_by = self._stop_by
        # A signal handler does not end a sleep, so there are many short ones. If the deadline is shortened meanwhile,
        # the next attempt is made without further delay.
        while self._stop_by == stop_by and (left := min(until, stop_by) - self._now()) > 0:
            self._sleep(min(left, _SLEEP_S))

    def retry_until_deadline(
        self,
        what: str,
        call: Callable[[], _T],
        executor: AbandonableExecutor | None = None,
        on_failure: Callable[[], None] | None = None,
        *,
        limit_s: float | None = None,
        replaced: bool = False,
    ) -> _T:
        """Return the result of `call`, repeated after transient errors; `executor` makes it if it may block.

        `on_failure` is called before each further attempt, and may raise an error. Otherwise this raises that of
        `call_error` for an error that is not transient, and the policy's at the deadline.

        limit_s   until the deadline; None: the policy's
        replaced  see `call_error`
        """
        cause: Exception | None = None
        with self.waiting(what, limit_s):
            for is_expired in self.attempts(limit_s):
                if cause is not None and on_failure is not None:
                    on_failure()
                try:
                    with as_kafka_exception():
                        return call() if executor is None else executor.run(call, is_expired)
                except KafkaException as failure:
                    error = failure.args[0]
                    if not is_transient(error):
                        raise call_error(error, what, replaced=replaced) from failure
                    reason, cause = error.str(), failure
                except AbandonedError as failure:
                    reason, cause = "the call is still blocked", failure
            raise self.given_up(what, reason, limit_s) from cause

    def retry_while(self, is_passing: Callable[[KafkaError], bool], call: Callable[[], _T]) -> _T:
        """Return the result of `call`, repeated while `is_passing` is true of its error; else raise KafkaException."""
        for _ in self.attempts():
            try:
                with as_kafka_exception():
                    return call()
            except KafkaException as failure:
                if not is_passing(failure.args[0]):
                    raise
                latest = failure
        raise latest
