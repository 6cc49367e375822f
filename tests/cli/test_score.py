"""`score` refuses what it can't read before it asks Kafka for anything."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from stream_apple.cli.options.extra import needs_extra
from stream_apple.cli.score import command
from stream_apple.errors import ConfigurationError


@pytest.mark.parametrize("as_of", ["3", "3@", "three@5", "3@5:here"])
def test_a_moment_that_is_none(tmp_path: Path, as_of: str) -> None:
    """It says what one looks like."""
    file = tmp_path / "asked.jsonl"
    file.write_text("{}\n")
    done = CliRunner().invoke(command, ["--as-of", as_of, str(file)])
    assert done.exit_code == 2
    assert "expected partition@offset, such as 3@90210" in done.output


def test_an_extra_that_is_not_installed() -> None:
    """Is named, with the command that installs it."""
    with (
        pytest.raises(ConfigurationError, match=r"expected no_such_module to be installed.*stream-apple\[serve\]"),
        needs_extra("serve"),
    ):
        __import__("no_such_module")
