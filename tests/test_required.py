"""What tests need and is not here: told, and a failure only where everything is to be proved."""

from pathlib import Path

import pytest
from support.required import SharedFile


@pytest.mark.parametrize("there", ["nothing", "a folder"])
def test_a_missing_file_is_named_and_skips(
    there: str, tmp_path: Path, shared: SharedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder `shared` beside the repository may be someone else's: what counts is the file that a test needs."""
    wanted = tmp_path / "shared" / "data" / "a9a.svm.gz"
    (wanted if there == "a folder" else wanted.parent).mkdir(parents=True)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"no reference data at {wanted}"):
        shared(str(wanted))


def test_in_ci_a_missing_file_is_a_failure(tmp_path: Path, shared: SharedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A skip that nobody reads would leave unproved what is to be proved there."""
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no reference data at"):
        shared(str(tmp_path / "a9a.svm.gz"))


def test_a_file_that_is_there_is_found(tmp_path: Path, shared: SharedFile) -> None:
    """Its path."""
    (tmp_path / "paper.tsv").touch()
    assert shared(str(tmp_path / "paper.tsv")) == tmp_path / "paper.tsv"
