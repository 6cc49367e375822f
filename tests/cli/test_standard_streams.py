"""Commands whose caller has closed standard input, output or error, as some supervisors and cron lines do."""

import subprocess
import sys
from pathlib import Path

import pytest

CLOSED = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"]

_OPENS_A_FILE = """
import os, sys
from stream_apple.cli.standard_streams import stand_in_for_closed
stand_in_for_closed()
number = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(2, b"a C library's words")
print("words", file=sys.stderr)
print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty())
sys.exit(number)
"""


def _run_with_closed(closed: str, *command: str) -> "subprocess.CompletedProcess[str]":
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, *command]
    return subprocess.run(shell, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("closed", CLOSED)
def test_what_is_opened_next_is_no_standard_stream(closed: str, tmp_path: Path) -> None:
    """A file would get the number of standard error, and then all that is written there."""
    opened = tmp_path / "opened"
    done = _run_with_closed(closed, "-c", _OPENS_A_FILE, str(opened))
    assert done.returncode > 2
    assert opened.read_bytes() == b""


@pytest.mark.parametrize("closed", CLOSED)
def test_a_command_ends_with_its_own_code(closed: str, tmp_path: Path) -> None:
    """A worker asks its streams whether they are terminals before it says what is wrong with its configuration."""
    done = _run_with_closed(closed, "-m", "stream_apple", "run", "--config", str(tmp_path / "missing.toml"))
    assert done.returncode == 78
