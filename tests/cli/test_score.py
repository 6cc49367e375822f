"""`score` refuses what it can't read before it asks Kafka for anything."""

import errno
import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from stream_apple.cli.score import command
from stream_apple.errors import ConfigurationError, InputFileError, needs_extra
from stream_apple.stream.walk.moment import Moment


@pytest.mark.parametrize("as_of", ["3", "3@", "three@5", "3@5:here"])
def test_a_moment_that_is_none(tmp_path: Path, as_of: str) -> None:
    """It says what one looks like."""
    file = tmp_path / "asked.jsonl"
    file.write_text("{}\n")
    done = CliRunner().invoke(command, ["--as-of", as_of, str(file)])
    assert done.exit_code == 2
    assert "expected partition@offset, such as 3@90210" in done.output


def _kept(moment: Moment, lines: Iterable[object]) -> Iterator[dict[str, int]]:
    """An answer for each line, without a model."""
    yield from ({"partition": moment.partition} for _ in lines)


def test_a_reader_who_has_gone_is_no_fault_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of `score ... | head`; what goes wrong in reading is told with the file's name."""
    monkeypatch.setattr("stream_apple.app.score.scored", lambda _config, moment, lines, _name: _kept(moment, lines))
    file = tmp_path / "asked.jsonl.gz"
    file.write_bytes(gzip.compress(b"{}\n{}\n"))
    done = CliRunner().invoke(command, ["--as-of", "3@5", str(file)])
    assert done.output == '{"partition": 3}\n' * 2
    file.write_bytes(file.read_bytes()[:-9])
    done = CliRunner().invoke(command, ["--as-of", "3@5", str(file)])
    assert isinstance(done.exception, InputFileError)
    assert str(done.exception).startswith(f"{file}: expected a whole gzip file, found a damaged one")

    def closed(_text: str) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("stream_apple.cli.score.say", closed)
    file.write_bytes(gzip.compress(b"{}\n"))
    done = CliRunner().invoke(command, ["--as-of", "3@5", str(file)])
    assert (done.exit_code, done.output) == (1, "")  # as click ends whatever writes to a closed pipe


def test_an_extra_that_is_not_installed() -> None:
    """Is named, with the command that installs it."""
    with (
        pytest.raises(ConfigurationError, match=r"expected no_such_module to be installed.*stream-apple\[plot\]"),
        needs_extra("plot"),
    ):
        __import__("no_such_module")
