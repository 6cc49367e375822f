"""Tasks beside each other, and how they end."""

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest
from support.sample_tasks import die, fail, first_then_stay, square

from stream_apple.errors import StreamAppleError
from stream_apple.signals import Signals
from study.runs.processes import run_all


def test_all_tasks_are_done() -> None:
    """Each once; none at all needs no process."""
    assert dict(run_all(square, list(range(7)), 2)) == {number: number**2 for number in range(7)}
    assert list(run_all(square, [], 2)) == []


def test_faults_are_raised() -> None:
    """A task's own, and the end of a process."""
    with pytest.raises(ValueError, match="3"):
        list(run_all(fail, [3], 1))
    with pytest.raises(StreamAppleError, match="--jobs"):
        list(run_all(die, [1], 1))


def test_nothing_goes_on_after_the_caller(tmp_path: Path) -> None:
    """Neither the task, nor what it has started, when the caller stops in the middle."""
    note = tmp_path / "note"
    runs = run_all(first_then_stay, [None, note], 2)
    assert next(runs) == (None, None)
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    processes = [int(word) for word in note.read_text().split()]
    runs.close()
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in processes if psutil.pid_exists(pid)], 20)
    assert alive == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "after_s", [0.11, *(pytest.param(after_s, marks=pytest.mark.long) for after_s in (0.05, 0.17))]
)
def test_a_signal_ends_it_whenever_it_comes(after_s: float) -> None:
    """It may come in any instruction of the pool's own: no lock of the many tasks that wait stays taken."""
    with Signals() as signals:
        runs = signals.until_first(run_all(square, range(20_000), 1))
        assert next(runs) == (0, 0)
        threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)).start()
        assert len(list(runs)) < 19_999
    assert signals.received is signal.SIGINT
