"""`stream-apple demo` as a process: its outcome, and that its worker never outlives it."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.waiting import DEADLINE_S, wait_until

from stream_apple.demo.child import Child, ChildEndedError
from stream_apple.errors import ConfigurationError


def start(tmp_path: Path, *options: str) -> "subprocess.Popen[str]":
    """The command, with its temporary files below `tmp_path`, and a setting that only its worker could mind."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "STREAM_APPLE_LEARNER__LOSS": "nonsense"}
    return subprocess.Popen(
        [sys.executable, "-m", "stream_apple", "demo", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_answers_everything_and_beats_linear(tmp_path: Path) -> None:
    """One JSON object with these keys: each example is answered, and apple's loss is below linear's."""
    demo = start(tmp_path, "--examples", "20000", "--json")
    output, errors = demo.communicate(timeout=240)
    assert demo.returncode == 0, errors
    outcome = json.loads(output)
    assert list(outcome) == [
        "examples", "predictions", "progressive_loss", "linear_progressive_loss", "epochs", "parents",
    ]  # fmt: skip
    assert outcome["examples"] == outcome["predictions"] == 20_000
    assert outcome["progressive_loss"] < outcome["linear_progressive_loss"] - 0.03
    assert outcome["epochs"] == 7
    assert outcome["parents"] >= outcome["epochs"]
    assert errors == ""
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_cannot_start_is_explained(tmp_path: Path) -> None:
    """Its own message is shown, and its exit code is the demo's."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        demo = start(tmp_path, "--port", str(port))
        output, errors = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == ConfigurationError.exit_code
    assert f"exit code {ConfigurationError.exit_code}" in errors
    assert f"expected to listen on 127.0.0.1 port {port}" in errors
    assert "starting" in output
    assert list(tmp_path.iterdir()) == []


def worker_of(process: "subprocess.Popen[str]") -> psutil.Process:
    """The process that runs the worker, once it does."""

    def running() -> psutil.Process | None:
        assert process.poll() is None
        children = psutil.Process(process.pid).children()
        workers = (
            child
            for child in children
            if "run" in child.cmdline() and "stream_apple.demo.parent_death_signal" not in child.cmdline()
        )
        return next(workers, None)

    return wait_until(running, "the worker's process")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        pytest.param(
            signal.SIGKILL, -9, marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties processes")
        ),
    ],
)
def test_the_worker_ends_with_the_demo(tmp_path: Path, number: int, code: int) -> None:
    """However the demo is stopped, no process is left behind, nor files if it could remove them."""
    demo = start(tmp_path)
    try:
        worker = worker_of(demo)
        demo.send_signal(number)
        output, errors = demo.communicate(timeout=DEADLINE_S)
        assert demo.returncode == code, errors
        assert "Traceback" not in output + errors
        _, alive = psutil.wait_procs([worker], timeout=DEADLINE_S)
        assert alive == []
        if number != signal.SIGKILL:
            assert list(tmp_path.iterdir()) == []
    finally:
        demo.kill()
        demo.communicate()


def test_a_worker_that_dies_is_noticed(tmp_path: Path) -> None:
    """A signal is named; the exit code is then ours."""
    with Child("run", tmp_path, {"http": {"host": "127.0.0.1", "port": 0}}) as worker:
        worker.check()
        os.kill(worker.pid, signal.SIGKILL)
        # Not reaped here: that is for the worker's owner, who reads how it ended.
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ChildEndedError, match="signal 9") as caught:
            worker.check()
    assert caught.value.exit_code == 1
