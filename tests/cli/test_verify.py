"""What `verify` prints of partitions that merge, and how it ends."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from simulation.small import small
from stream.verification.merged_logs import PLACE, strict
from support.clock import Clock
from support.records import TOPIC

from stream_apple.cli.progress import PlainLines
from stream_apple.cli.verify import command
from stream_apple.errors import UnprovedError, VerificationError
from stream_apple.stream.verification.partition_report import Report
from stream_apple.stream.verification.verifier import Verifier
from stream_apple.stream.walk.sources import Sources


def verified(reports: Sequence[Report], monkeypatch: pytest.MonkeyPatch, path: Path, *options: str) -> Result:
    """What the command does with these reports."""
    monkeypatch.setattr("stream_apple.app.verify.verify", lambda *_: reports)
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
    assert told["unproved"] == 0
    assert told["partitions"][0]["made_again"] == {"merges": 3, "matched": 3, "unknown": 0}
    assert told["partitions"][2]["boundaries"] == {"adopted": 3, "late": 0, "skipped": 0}
    assert told["partitions"][0]["unproved"] == []


def test_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with what a broken promise ends with, and says what could not be proved for want of a record."""
    logs = strict()
    del logs.logs[PLACE][logs.adoptions()[0][0]]
    result = verified(logs.verify_all(), monkeypatch, tmp_path)
    assert isinstance(result.exception, VerificationError)
    assert result.exception.exit_code == 74
    assert "missing adoption: merges-0, example " in result.output
    assert "are not proved: examples-" in result.output
    assert "1 faults; " in result.output


def test_what_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named and counted, and is no fault; whoever expects it says so."""
    logs = strict()
    logs.remove_before(PLACE, logs.logs[PLACE][-1].at)
    reports = logs.verify_all()
    count = sum(report.unproved_count for report in reports)
    proved = sum(report.covered.records for report in reports)
    assert 0 < count < sum(len(logs.logs[TOPIC, number]) for number in range(3)) == count + proved
    result = verified(reports, monkeypatch, tmp_path)
    assert isinstance(result.exception, UnprovedError)
    assert result.exception.exit_code == 76
    assert "it is gone" in result.output
    assert f"no faults; {count} unproved\n" in result.output
    assert f"found {count} that can't be proved in examples, partition 0, 1, 2" in str(result.exception)
    assert verified(reports, monkeypatch, tmp_path, "--allow-unproved").exit_code == 0
    told = json.loads(verified(reports, monkeypatch, tmp_path, "--allow-unproved", "--json").output)
    assert (told["verified"], told["unproved"]) == (False, count)
    assert sum(each["examples"] for part in told["partitions"] for each in part["unproved"]) == count


def test_nothing_is_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an idle group whose examples are gone, all is unproved, whatever is allowed."""
    logs = strict()
    for number in range(3):
        committed = logs.offsets[number]
        assert committed is not None
        logs.remove_before((TOPIC, number), committed.offset)
    reports = logs.verify_all()
    assert sum(report.covered.records for report in reports) == 0
    for options in ((), ("--allow-unproved",)):
        result = verified(reports, monkeypatch, tmp_path, *options)
        assert isinstance(result.exception, UnprovedError)


def test_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no terminal, a line now and then: records of all partitions, done and in all."""
    said: list[tuple[int, int]] = []
    logs = strict()
    with small():
        verifier = Verifier(Sources(logs, logs.setup.provenance, logs.new_model, 7), lambda *told: said.append(told))
        reports = verifier.verify_all()
    total = sum(report.covered.stop for report in reports)
    assert said[0] == (0, total)
    assert said[-1] == (total, total)
    assert said == sorted(said)

    clock = Clock(0.0, 4.0)
    monkeypatch.setattr("stream_apple.cli.verify.PlainLines", lambda: PlainLines(clock))
    (tmp_path / "empty.toml").touch()

    def verify(*arguments: Any) -> list[Report]:
        for each in said:
            arguments[-1](*each)
        return list(reports)

    monkeypatch.setattr("stream_apple.app.verify.verify", verify)
    result = CliRunner().invoke(command, ["--config", str(tmp_path / "empty.toml")])
    lines = result.stderr.splitlines()
    assert len(lines) > 2
    assert all(re.fullmatch(rf"verify: \d+ of {total} records(, about \d+ (s|min))?", line) for line in lines)
