"""What signals do to a worker, in processes of their own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

_PROGRAM = """
import sys, time
from stream_apple.adapters.signals import Signals
with Signals() as signals:
    if sys.argv[1] == "busy":
        signals.call(lambda: print("finishing", flush=True))
    print("ready", flush=True)
    time.sleep(60)
    time.sleep(60)
"""


@contextmanager
def started(stage: str) -> Iterator[tuple["subprocess.Popen[str]", IO[str]]]:
    """A process that catches signals, once it says so, and its output."""
    with subprocess.Popen([sys.executable, "-c", _PROGRAM, stage], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process, process.stdout
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_before_there_is_anything_to_finish(number: signal.Signals) -> None:
    """The process ends at once, and well: a supervisor may stop a worker that still compiles."""
    with started("starting") as (process, _):
        process.send_signal(number)
        assert process.wait(30) == 0


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_the_second_ends_the_process(first: signal.Signals, second: signal.Signals) -> None:
    """The first is told to whoever finishes; the kernel ends the process at the second, whatever it is doing."""
    with started("busy") as (process, output):
        process.send_signal(first)
        assert "finishing\n" in {output.readline(), output.readline()}
        assert process.poll() is None
        process.send_signal(second)
        assert process.wait(30) == -second
