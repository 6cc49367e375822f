"""`stream-apple` as a user runs it: a process, from its start to its end."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_SECONDS = 300.0


def run_command(
    *arguments: str | Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Exit code and output of `stream-apple` with these arguments, whatever they are."""
    command = [sys.executable, "-m", "stream_apple", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS, env=environment)
