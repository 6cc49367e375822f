"""How often a call of Kafka is made again, how far apart, and when it is enough."""

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.clock import Clock

from stream_apple.adapters.kafka.executor import AbandonableExecutor
from stream_apple.adapters.kafka.retry import (
    ATTEMPT_TIMEOUT_S,
    DEADLINE_S,
    FIRST_INTERVAL_S,
    MAX_INTERVAL_S,
    SHORTENED_DEADLINE_S,
    SLOW_S,
    RetryPolicy,
)
from stream_apple.errors import BrokerError
from stream_apple.stream.log.ports import AbortableError

BLOCKED_S = 60.0


class SleepingClock(Clock[float]):
    """A clock that sleeping moves, and what happens at certain times of it."""

    def __init__(self) -> None:
        super().__init__(1000.0)
        self.sleeps: list[float] = []
        self._due: list[tuple[float, Callable[[], None]]] = []

    def at(self, moment: float, happens: Callable[[], None]) -> None:
        """Have something happen when time has come so far."""
        self._due.append((moment, happens))

    def sleep(self, seconds: float) -> None:
        """Time passes; whatever is due happens."""
        self.sleeps.append(seconds)
        self.now += seconds
        while self._due and self._due[0][0] <= self.now:
            self._due.pop(0)[1]()

    def policy(self, deadline_s: float = DEADLINE_S) -> RetryPolicy:
        """A policy that lives by this clock."""
        return RetryPolicy(deadline_s, now=self, sleep=self.sleep)


class Call:
    """A call that fails as told, and notes when it was made."""

    def __init__(self, clock: SleepingClock, failures: int = 1 << 30, takes_s: float = 0.0) -> None:
        self.clock = clock
        self.failures = failures
        self.takes_s = takes_s
        self.made: list[float] = []

    def __call__(self) -> str:
        """Done, after so many failures."""
        self.made.append(self.clock.now)
        self.clock.now += self.takes_s
        if len(self.made) <= self.failures:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "nobody there"))
        return "done"

    @property
    def intervals(self) -> list[float]:
        """From the beginning of an attempt to that of the next."""
        return [later - earlier for earlier, later in zip(self.made, self.made[1:], strict=False)]


class TestSlowCalls:
    """What is said while a call waits."""

    def test_one_line_comes_early(self) -> None:
        """After five seconds of a minute, and not again before a call has succeeded."""
        clock, told = SleepingClock(), list[tuple[float, str]]()

        def slow(doing: str) -> None:
            told.append((clock.now, doing))

        policy = RetryPolicy(now=clock, sleep=clock.sleep, slow=slow)
        for _ in range(2):
            with pytest.raises(BrokerError):
                policy.retry_until_deadline("asking", Call(clock))
        assert [doing for _, doing in told] == ["asking"]
        assert SLOW_S <= told[0][0] - 1000 <= SLOW_S + MAX_INTERVAL_S
        policy.retry_until_deadline("asking", Call(clock, 3))
        policy.retry_until_deadline("telling", Call(clock, 20))
        assert [doing for _, doing in told] == ["asking", "telling"]

    def test_a_call_that_blocks(self) -> None:
        """It is told of while it does, as it may for a minute."""
        executor, told = AbandonableExecutor("test", None), threading.Event()
        clock = SleepingClock()
        policy = RetryPolicy(now=clock, slow=lambda _doing: told.set())

        def call() -> None:
            clock.now += SLOW_S
            assert told.wait(BLOCKED_S)

        policy.retry_until_deadline("asking", call, executor)
        executor.close()


class TestIntervals:
    """How far apart attempts are."""

    def test_a_call_that_fails_at_once_is_made_a_bounded_number_of_times(self) -> None:
        """At first soon again, then at least half a second apart, until the deadline and not beyond it."""
        clock = SleepingClock()
        call = Call(clock)
        with pytest.raises(BrokerError, match=r"asking: no success within 60 s: nobody there"):
            clock.policy().retry_until_deadline("asking", call)
        assert DEADLINE_S / MAX_INTERVAL_S < len(call.made) < 2 * DEADLINE_S / MAX_INTERVAL_S + 10
        assert clock.now == pytest.approx(1000 + DEADLINE_S)

    def test_intervals_double_up_to_the_cap(self) -> None:
        """Each with its random part: between half of the interval and all of it."""
        clock = SleepingClock()
        call = Call(clock, failures=40)
        assert clock.policy().retry_until_deadline("asking", call) == "done"
        longest = [min(FIRST_INTERVAL_S * 2**number, MAX_INTERVAL_S) for number in range(40)]
        assert all(most / 2 - 1e-6 <= found <= most + 1e-6 for found, most in zip(call.intervals, longest, strict=True))
        assert len({round(found, 6) for found in call.intervals[-20:]}) == 20

    def test_a_success_resets_the_interval(self) -> None:
        """The next call that fails is made again as soon as the first one was."""
        clock = SleepingClock()
        policy = clock.policy()
        policy.retry_until_deadline("asking", Call(clock, failures=20))
        call = Call(clock, failures=1)
        policy.retry_until_deadline("asking", call)
        assert call.intervals[0] <= FIRST_INTERVAL_S

    def test_a_call_that_used_its_timeout_is_repeated_at_once(self) -> None:
        """It has waited for Kafka long enough itself."""
        clock = SleepingClock()
        call = Call(clock, failures=5, takes_s=ATTEMPT_TIMEOUT_S)
        assert clock.policy().retry_until_deadline("asking", call) == "done"
        assert clock.sleeps == []

    def test_attempts_without_an_error(self) -> None:
        """For what has only not happened yet: the first attempt is made even if there is no time at all."""
        clock = SleepingClock()
        assert len(list(clock.policy(0.0).attempts())) == 1
        assert len(list(clock.policy(8.0).attempts())) < 30
        assert clock.now == pytest.approx(1008)


class TestShortenedDeadline:
    """A worker that is to stop."""

    def test_it_ends_the_pause_and_then_the_attempts(self) -> None:
        """The next attempt is made within a tenth of a second, the last one before the shortened deadline."""
        clock = SleepingClock()
        policy = clock.policy()
        call = Call(clock)
        clock.at(1020.0, policy.shorten_deadline)
        with pytest.raises(BrokerError, match="asking: asked to stop while waiting for Kafka: nobody there"):
            policy.retry_until_deadline("asking", call)
        shortened = next(made for made in call.made if made >= 1020)
        assert shortened - 1020 < 0.11
        assert call.made[-1] < shortened + SHORTENED_DEADLINE_S
        assert clock.now == pytest.approx(shortened + SHORTENED_DEADLINE_S, abs=0.2)

    def test_every_pause_is_slept_in_short_slices(self) -> None:
        """A signal's handler runs at once, but does not end the sleep that it interrupts."""
        clock = SleepingClock()
        clock.policy().retry_until_deadline("asking", Call(clock, failures=40))
        assert max(clock.sleeps) <= 0.1

    def test_a_signal_ends_a_real_pause(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On the main thread, by the handler that a worker has."""
        monkeypatch.setattr("stream_apple.adapters.kafka.retry.SHORTENED_DEADLINE_S", 0.0)
        monkeypatch.setattr("stream_apple.adapters.kafka.retry.FIRST_INTERVAL_S", BLOCKED_S)
        policy = RetryPolicy()
        previous = signal.signal(signal.SIGUSR1, lambda *_: policy.shorten_deadline())
        started = time.monotonic()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        try:
            assert len(list(policy.attempts())) == 1
        finally:
            signal.signal(signal.SIGUSR1, previous)
        assert time.monotonic() - started < BLOCKED_S / 4

    def test_it_ends_the_wait_for_a_blocked_call(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Even though the call is still blocked."""
        monkeypatch.setattr("stream_apple.adapters.kafka.retry.SHORTENED_DEADLINE_S", 0.1)
        executor, policy, gate = AbandonableExecutor("test", None), RetryPolicy(), threading.Event()
        policy.shorten_deadline()
        with pytest.raises(BrokerError, match="asking: asked to stop while waiting for Kafka: the call is still block"):
            policy.retry_until_deadline("asking", lambda: gate.wait(BLOCKED_S), executor)
        gate.set()
        executor.close()


class TestErrors:
    """Which errors are worth another attempt."""

    def test_transient_errors_are_repeated(self) -> None:
        """Until the call succeeds; before each further attempt, the caller may look for the reason."""
        errors = [KafkaError._TRANSPORT, KafkaError._DESTROY_BROKER, KafkaError.NOT_COORDINATOR, KafkaError._TIMED_OUT]
        looked: list[int] = []

        def call() -> str:
            if errors:
                raise KafkaException(KafkaError(errors.pop()))
            return "done"

        policy = SleepingClock().policy()
        found = policy.retry_until_deadline("asking", call, on_failure=lambda: looked.append(len(errors)))
        assert found == "done"
        assert looked == [3, 2, 1, 0]

    def test_other_errors_end_it_at_once(self) -> None:
        """An error that waiting does not cure becomes the port's."""
        calls: list[int] = []

        def call() -> None:
            calls.append(1)
            raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION, "x", txn_requires_abort=True))

        with pytest.raises(AbortableError, match=r"asking: x \(ILLEGAL_GENERATION\)"):
            RetryPolicy().retry_until_deadline("asking", call)
        assert calls == [1]

    def test_errors_that_pass(self) -> None:
        """Those that the caller names are waited for; another, or the deadline, is a KafkaException as it came."""
        clock = SleepingClock()
        call = Call(clock, failures=3)
        assert clock.policy().retry_while(lambda error: error.code() == KafkaError._TRANSPORT, call) == "done"
        with pytest.raises(KafkaException, match="nobody there"):
            clock.policy(8.0).retry_while(lambda _: True, Call(clock))
        refused = Call(clock)
        with pytest.raises(KafkaException, match="nobody there"):
            clock.policy().retry_while(lambda _: False, refused)
        assert len(refused.made) == 1
