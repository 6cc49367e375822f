"""Finished runs are kept, whatever happens at the end of a process."""

from pathlib import Path

import pytest

from stream_apple.errors import ConfigurationError, InputFileError
from study.runs.journal import Journal


def test_runs_are_kept(tmp_path: Path) -> None:
    """Each at once, under its key."""
    path = tmp_path / "out" / "runs.jsonl"
    with Journal(path) as journal:
        journal.add("k1", {"n": 1})
        assert path.read_text().count("\n") == 1
        journal.add("k2", {"n": 2})
    with Journal(path) as journal:
        assert journal.records == {"k1": {"n": 1}, "k2": {"n": 2}}


@pytest.mark.parametrize("torn", ['{"key": "k2", "n"', '{"key": "k2", "n": 2}', "\xff"])
def test_a_torn_line_is_dropped(tmp_path: Path, torn: str) -> None:
    """And what is added after it begins a line of its own."""
    path = tmp_path / "runs.jsonl"
    path.write_text('{"key": "k1", "n": 1}\n' + torn)
    with Journal(path) as journal:
        assert journal.records == {"k1": {"n": 1}}
        journal.add("k3", {"n": 3})
    with Journal(path) as journal:
        assert list(journal.records) == ["k1", "k3"]


@pytest.mark.parametrize("line", ["nonsense", '{"n": 1}', "[]"])
def test_a_line_that_is_no_run_is_an_error(tmp_path: Path, line: str) -> None:
    """With its number: the file is not ours."""
    path = tmp_path / "runs.jsonl"
    path.write_text('{"key": "k1"}\n' + line + "\n")
    with pytest.raises(InputFileError, match=r"runs\.jsonl:2: expected a finished run"):
        Journal(path)


def test_one_study_at_a_time_writes(tmp_path: Path) -> None:
    """The second is told; after the first, another may."""
    path = tmp_path / "runs.jsonl"
    with Journal(path), pytest.raises(ConfigurationError, match="expected to be the only study"):
        Journal(path)
    with Journal(path):
        pass
