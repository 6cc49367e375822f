"""How a service ends."""

import subprocess
import sys

import pytest

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
