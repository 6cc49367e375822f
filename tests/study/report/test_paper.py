"""The paper's table."""

from pathlib import Path

import pytest
from support.required import SharedFile

from stream_apple.errors import ConfigurationError
from study.report.outcomes import label_of
from study.report.paper import read_paper

_METHODS = ("lin", "quad", "cubic", "apple1", "apple0.75", "apple0.5", "apple0.25", "apple0.125")


def write(path: Path, errors: str) -> Path:
    """A table of one set, with these errors in the order of the headings."""
    header = ["name", "n", *(f"err_{name}" for name in _METHODS), *(f"sec_{name}" for name in _METHODS)]
    path.write_text("\t".join(header) + "\n" + "\t".join(["set", "100", *errors.split(), *"12345678"]) + "\n")
    return path


def test_alphas_are_read_in_reverse(tmp_path: Path) -> None:
    """What the paper has under 0.125 is our 1."""
    row = read_paper(write(tmp_path / "paper.tsv", ".4 .3 .2 .11 .12 .13 .14 .15"))["set"]
    assert row.rows == 100
    assert [row.errors[label_of("apple-plain", alpha)] for alpha in (1, 0.75, 0.5, 0.25, 0.125)] == [
        0.15, 0.14, 0.13, 0.12, 0.11,
    ]  # fmt: skip
    assert row.seconds[label_of("apple-plain", 1)] == 8.0
    assert row.relative_error(label_of("apple-plain", 1)) == pytest.approx(-0.25)
    assert row.relative_time(label_of("apple-plain", 1)) == 8.0
    assert (row.errors["apple-plain-best"], row.seconds["apple-plain-best"]) == (0.11, 4.0)


def test_faults_are_explained(tmp_path: Path) -> None:
    """With file and line."""
    with pytest.raises(ConfigurationError, match="expected a readable file"):
        read_paper(tmp_path / "none.tsv")
    with pytest.raises(ConfigurationError, match=r"paper\.tsv:2: expected the columns"):
        read_paper(write(tmp_path / "paper.tsv", ".4 .3 .2 much .12 .13 .14 .15"))


def test_the_real_table_supports_the_reading(shared: SharedFile) -> None:
    """Under 0.125 it has the text's counts for 1, within one set: below 0 on 12 of 30, below .5 on 26."""
    label = label_of("apple-plain", 1)
    errors = [
        error
        for row in read_paper(shared("data/paper.tsv")).values()
        if (error := row.relative_error(label)) is not None
    ]
    assert (sum(error < 0 for error in errors), sum(error < 0.5 for error in errors)) == (13, 26)
