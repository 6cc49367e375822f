"""Calls that block: who waits, for how long, and what is left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exports are not marked
from kafka_broker import Broker, create_topics

from stream_apple.adapters.aside import AbandonedError, Aside
from stream_apple.adapters.patience import Patience
from stream_apple.errors import BrokerError
from stream_apple.runtime.ports import AbortableError

COMMITTING = Path(__file__).with_name("committing_process.py")
LEAVES_WITHIN_S = 15.0
DEADLINE_S = 60.0


def never() -> bool:
    """For callers with time."""
    return False


class TestAside:
    """One call at a time on another thread."""

    def test_gives_what_the_call_gives(self) -> None:
        """Results and errors come back as they are, from a thread that is not ours."""
        aside = Aside("test", None)
        assert aside.run(threading.get_ident, never) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            aside.run(lambda: 1 // 0, never)
        assert aside.run(lambda: 5, never) == 5
        aside.close()

    def test_a_blocked_call_is_given_up(self) -> None:
        """The caller goes on when its time is up; until the call is back, no other is made."""
        aside = Aside("test", None)
        gate = threading.Event()
        with pytest.raises(AbandonedError):
            aside.run(lambda: gate.wait(DEADLINE_S), lambda: True)
        assert aside.blocked
        with pytest.raises(AbandonedError):
            aside.run(lambda: 5, never)
        gate.set()
        deadline = time.monotonic() + DEADLINE_S
        while aside.blocked:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert aside.run(lambda: 5, never) == 5
        aside.close()

    def test_signals_are_seen_while_a_call_blocks(self) -> None:
        """A handler runs in the middle of the wait, and may end it."""
        aside = Aside("test", None)
        gate = threading.Event()
        seen: list[int] = []
        previous = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
        started = time.monotonic()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        try:
            with pytest.raises(AbandonedError):
                aside.run(lambda: gate.wait(DEADLINE_S), lambda: bool(seen))
        finally:
            signal.signal(signal.SIGUSR1, previous)
        assert seen == [signal.SIGUSR1]
        assert time.monotonic() - started < DEADLINE_S / 2
        gate.set()
        aside.close()

    def test_the_thread_ends(self) -> None:
        """After `close` no thread stays behind."""
        aside = Aside("test", None)
        aside.close()
        aside._thread.join(DEADLINE_S)
        assert not aside._thread.is_alive()


class TestPatience:
    """How long a call is repeated."""

    def test_transient_errors_are_repeated(self) -> None:
        """Until the call succeeds."""
        errors = [KafkaError._TRANSPORT, KafkaError.NOT_COORDINATOR, KafkaError._TIMED_OUT]

        def call() -> str:
            if errors:
                raise KafkaException(KafkaError(errors.pop()))
            return "done"

        assert Patience().insist("asking", call) == "done"

    def test_other_errors_are_judged_at_once(self) -> None:
        """An error that waiting does not cure becomes its verdict."""
        calls: list[int] = []

        def call() -> None:
            calls.append(1)
            raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION, "x", txn_requires_abort=True))

        with pytest.raises(AbortableError, match=r"asking: x \(ILLEGAL_GENERATION\)"):
            Patience().insist("asking", call)
        assert calls == [1]

    def test_the_deadline_ends_the_repetition(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Then the message has the deadline and the last reason."""
        monkeypatch.setattr("stream_apple.adapters.patience.DEADLINE_S", 0.05)

        def call() -> None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "nobody there"))

        with pytest.raises(BrokerError, match=r"asking: no success within 0\.05 s: nobody there"):
            Patience().insist("asking", call)

    def test_hurry_shortens_the_wait_for_a_blocked_call(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The wait ends HURRY_S after the request even though the call is still blocked."""
        monkeypatch.setattr("stream_apple.adapters.patience.HURRY_S", 0.1)
        aside, patience, gate = Aside("test", None), Patience(), threading.Event()
        patience.hurry()
        with pytest.raises(BrokerError, match="asking: asked to stop while waiting for Kafka: the call is still block"):
            patience.insist("asking", lambda: gate.wait(DEADLINE_S), aside)
        gate.set()
        aside.close()


@pytest.mark.parametrize("broken", ["killed", "frozen"])
def test_a_worker_that_is_stopped_during_a_blocked_commit_ends(jars: Path, tmp_path: Path, broken: str) -> None:
    """Its broker dies, or answers no more, inside a commit: SIGTERM ends the whole process in time, with the code."""
    broker = Broker(tmp_path / "kafka", jars)
    broker.start()
    log = tmp_path / "log"
    try:
        create_topics(broker.bootstrap, NewTopic("examples", 1, 1), NewTopic("outputs", 1, 1))
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, COMMITTING, broker.bootstrap, "examples", "outputs"],
                stdout=output,
                stderr=output,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )
        try:
            _await_commits(log, process, more_than=20)
            if broken == "killed":
                broker.kill()
            else:
                os.killpg(broker._process.pid, signal.SIGSTOP)  # type: ignore[union-attr]
            _await_silence(log)
            asked = time.monotonic()
            process.terminate()
            code = process.wait(DEADLINE_S)
            assert time.monotonic() - asked < LEAVES_WITHIN_S, log.read_text()[-4000:]
            assert code == BrokerError.exit_code, log.read_text()[-4000:]
            assert "asked to stop while waiting for Kafka" in log.read_text()
        finally:
            process.kill()
            process.wait()
    finally:
        broker.kill()


def _await_commits(log: Path, process: subprocess.Popen[bytes], more_than: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while log.read_text().count("committed") <= more_than:
        assert process.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.02)


def _await_silence(log: Path) -> None:
    """A commit takes milliseconds: when none has been reported for a second, one is blocked."""
    deadline = time.monotonic() + DEADLINE_S
    count, since = -1, time.monotonic()
    while time.monotonic() - since < 1:
        assert time.monotonic() < deadline
        if (found := log.read_text().count("committed")) != count:
            count, since = found, time.monotonic()
        time.sleep(0.02)
