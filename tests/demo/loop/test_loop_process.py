"""`stream-apple demo --loop` as a process: from the first question to answers that are worth asking for."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.waiting import DEADLINE_S, wait_until

COMMANDS = {"run", "join", "serve"}


def start(tmp_path: Path, *options: str) -> "subprocess.Popen[str]":
    """The command, with its temporary files below `tmp_path`."""
    return subprocess.Popen(
        [sys.executable, "-m", "stream_apple", "demo", "--loop", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )


def test_answers_get_better_by_what_came_of_the_first_ones(tmp_path: Path) -> None:
    """Each impression is learned once, each click labels one; the last answers are better than any constant."""
    demo = start(tmp_path, "--examples", "8000", "--json")
    output, errors = demo.communicate(timeout=540)
    assert demo.returncode == 0, errors
    outcome = json.loads(output)
    assert outcome["requests"] == outcome["examples"] == 8000
    assert 2000 < outcome["clicks"] == outcome["labelled"] < 5000
    assert 3000 < outcome["answered"] < 8000  # the first ones come before there is a model
    assert 0 < outcome["latency_median_ms"] <= outcome["latency_p99_ms"]
    assert outcome["last_third_unanswered"] == 0
    assert outcome["last_third_loss"] < outcome["last_third_constant_loss"] - 0.02
    assert errors == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties processes")
def test_no_process_outlives_a_demo_that_is_killed(tmp_path: Path) -> None:
    """All three commands end with it."""
    demo = start(tmp_path)

    def commands() -> list[psutil.Process]:
        assert demo.poll() is None
        children = psutil.Process(demo.pid).children()
        started = [child for child in children if "stream_apple.demo.parent_death_signal" not in child.cmdline()]
        found = {name: child for child in started for name in COMMANDS.intersection(child.cmdline())}
        return list(found.values()) if found.keys() == COMMANDS else []

    try:
        children = wait_until(commands, "three processes")
        demo.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
        assert alive == []
    finally:
        demo.kill()
        demo.communicate()
