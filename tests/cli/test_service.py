"""How a service ends."""

import os
import subprocess
import sys

import pytest
from support.command import run_command

from stream_apple.errors import BrokerError, ConfigurationError, FencedError, StreamAppleError

_SCRIPT = """
import atexit, sys
import confluent_kafka
from stream_apple import errors
from stream_apple.cli.service import exit_with

atexit.register(print, "taken apart")

def work():
    raise getattr(errors, sys.argv[1])("why")

exit_with(work, "json")
"""


@pytest.mark.parametrize("error", [BrokerError, FencedError, ConfigurationError])
def test_a_failure_ends_at_once(error: type[StreamAppleError]) -> None:
    """With its code, and the reason as its last words; a client whose brokers refuse it is not destroyed."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, error.__name__], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == error.exit_code
    assert '"error": "why"' in done.stderr.splitlines()[-1] + done.stdout
    assert "taken apart" not in done.stdout


@pytest.mark.parametrize(
    ("setting", "found"),
    [("TOPICS__EXAMPLES", "impressions"), ("WORKER__GROUP", "stream-apple-join")],
)
def test_a_join_is_checked_where_nothing_is_said_of_it(setting: str, found: str) -> None:
    """A joiner by its defaults would join its own examples, without an end, or work in the group of the workers."""
    done = run_command("join", environment={**os.environ, f"STREAM_APPLE_{setting}": found})
    assert done.returncode == 78
    assert "the configuration has a fault: " in done.stderr
    assert found in done.stderr
