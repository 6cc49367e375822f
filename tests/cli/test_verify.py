"""What `verify` prints of partitions that merge, and how it ends."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from runtime.verification.merged_logs import PLACE, strict

from stream_apple.cli.verify import command
from stream_apple.errors import VerificationError
from stream_apple.runtime.verification.report import Report


def verified(reports: Sequence[Report], monkeypatch: pytest.MonkeyPatch, path: Path, *options: str) -> Result:
    """What the command does with these reports."""
    monkeypatch.setattr("stream_apple.cli.verify.verify", lambda *_: reports)
    (path / "empty.toml").touch()
    return CliRunner().invoke(command, ["--config", str(path / "empty.toml"), *options], env={"COLUMNS": "200"})


def test_good_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How each partition has passed the ends of rounds, and that all merged models were made again."""
    result = verified(strict().verify_all(), monkeypatch, tmp_path)
    assert result.exit_code == 0
    assert "no faults" in result.output
    assert "merged models: 3 of 3 made again\n" in result.output
    assert "partition 1: passed the end of 3 rounds: 3 in the merge, 0 late, 0 alone\n" in result.output
    told = json.loads(verified(strict().verify_all(), monkeypatch, tmp_path, "--json").output)
    assert told["verified"] is True
    assert told["partitions"][0]["made_again"] == {"merges": 3, "matched": 3, "unknown": 0}
    assert told["partitions"][2]["boundaries"] == {"adopted": 3, "late": 0, "skipped": 0}
    assert "unproved" not in told["partitions"][0]


def test_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with what a broken promise ends with, and says what could not be proved for want of a record."""
    logs = strict()
    del logs.logs[PLACE][logs.adoptions()[0][0]]
    result = verified(logs.verify_all(), monkeypatch, tmp_path)
    assert isinstance(result.exception, VerificationError)
    assert result.exception.exit_code == 74
    assert "missing adoption: merges-0, example " in result.output
    assert "are not proved: examples-" in result.output


def test_what_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and is no fault."""
    logs = strict()
    logs.remove_before(PLACE, logs.logs[PLACE][-1].at)
    result = verified([logs.verify(0)], monkeypatch, tmp_path)
    assert result.exit_code == 0
    assert "it is gone" in result.output
