"""`stream-apple` as a user runs it: a process from its start to its end, or a call that says the same."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner

from stream_apple.cli import main

_SECONDS = 300.0


def run_command(
    *arguments: str | Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Exit code and output of `stream-apple` with these arguments, whatever they are."""
    command = [sys.executable, "-m", "stream_apple", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS, env=environment)


def call_command(
    *arguments: str | Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """The same without a process, whose imports alone take a second: where a test has run the command as one before.

    environment  variables besides those of this process
    Not for commands that log, and not without a broker: a client that still asks may take the process with it.
    """
    told = list(map(str, arguments))
    done = CliRunner().invoke(main, told, env=environment, prog_name="stream-apple")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(told, done.exit_code, done.stdout, done.stderr)
