"""Calls that block: who waits, for how long, and what is left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exports are not marked
from support.kafka.broker import Broker
from support.topics import create_topics
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.executor import AbandonableExecutor, AbandonedError

TESTS = Path(__file__).resolve().parents[2]
IN_DOUBT = 1  # see `committing_process`
COMMITTING = TESTS / "support" / "kafka" / "committing_process.py"
LEAVES_WITHIN_S = 15.0


def never() -> bool:
    """For callers with time."""
    return False


class TestAbandonableExecutor:
    """One call at a time on another thread."""

    def test_gives_what_the_call_gives(self) -> None:
        """Results and errors come back as they are, from a thread that is not ours."""
        executor = AbandonableExecutor("test", None)
        assert executor.run(threading.get_ident, never) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            executor.run(lambda: 1 // 0, never)
        assert executor.run(lambda: 5, never) == 5
        executor.close()

    def test_a_blocked_call_is_given_up(self) -> None:
        """The caller goes on when its time is up; until the call is back, no other is made."""
        executor = AbandonableExecutor("test", None)
        gate = threading.Event()
        with pytest.raises(AbandonedError):
            executor.run(lambda: gate.wait(DEADLINE_S), lambda: True)
        assert executor.blocked
        with pytest.raises(AbandonedError):
            executor.run(lambda: 5, never)
        gate.set()
        wait_until(lambda: not executor.blocked, "the call's return")
        assert executor.run(lambda: 5, never) == 5
        executor.close()

    def test_signals_are_seen_while_a_call_blocks(self) -> None:
        """A handler runs in the middle of the wait, and may end it."""
        executor = AbandonableExecutor("test", None)
        gate = threading.Event()
        seen: list[int] = []
        previous = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
        started = time.monotonic()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        try:
            with pytest.raises(AbandonedError):
                executor.run(lambda: gate.wait(DEADLINE_S), lambda: bool(seen))
        finally:
            signal.signal(signal.SIGUSR1, previous)
        assert seen == [signal.SIGUSR1]
        assert time.monotonic() - started < DEADLINE_S / 2
        gate.set()
        executor.close()

    def test_the_thread_ends(self) -> None:
        """After `close` no thread stays behind."""
        executor = AbandonableExecutor("test", None)
        executor.close()
        executor._thread.join(DEADLINE_S)
        assert not executor._thread.is_alive()


@pytest.mark.parametrize("broken", ["killed", "frozen"])
def test_a_worker_that_is_stopped_during_a_blocked_commit_ends(jars: Path, tmp_path: Path, broken: str) -> None:
    """Its broker dies, or answers no more, inside a commit: SIGTERM ends the whole process in time."""
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
                env={**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"},
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
            assert code == IN_DOUBT, log.read_text()[-4000:]
            assert "doubt: " in log.read_text()
        finally:
            process.kill()
            process.wait()
    finally:
        broker.kill()


def _await_commits(log: Path, process: subprocess.Popen[bytes], more_than: int) -> None:
    def enough() -> bool:
        assert process.poll() is None, log.read_text()[-4000:]
        return log.read_text().count("committed") > more_than

    wait_until(enough, lambda: log.read_text()[-4000:])


def _await_silence(log: Path) -> None:
    """A commit takes milliseconds: when none has been reported for a second, one is blocked."""
    count, since = -1, time.monotonic()

    def silent() -> bool:
        nonlocal count, since
        if (found := log.read_text().count("committed")) != count:
            count, since = found, time.monotonic()
        return time.monotonic() - since >= 1

    wait_until(silent, "a second without a commit")
