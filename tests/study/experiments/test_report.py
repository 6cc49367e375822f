"""What is written of findings: pages, tables for programs, and figures."""

import csv
import json
from pathlib import Path

import pytest

from study.experiments.experiment import Plot, PlotLine, StudyFinding
from study.experiments.report import FindingReport

LINES = (PlotLine("rises", (1.0, 2.0), (0.5, 0.25)), PlotLine("level", (0.0,), (0.3,)))
FINDING = StudyFinding(
    "error-by-t", "Error by t", ("method", "error", "parameters"), (("A|B", 0.1951, 13_800), ("none", None, 0)),
    "the reference has .195", Plot("t", "error", LINES),
)  # fmt: skip


def test_a_finding_has_its_files(tmp_path: Path) -> None:
    """A table for people, two for programs, and the figure."""
    pytest.importorskip("matplotlib")
    page = FindingReport(tmp_path, "tuples: what it shows", ["A note."]).add(FINDING)
    text = page.read_text()
    assert "# tuples: what it shows\n\n**A note.**\n" in text
    assert "| A\\|B | 0.1951 | 13,800 |\n| none | – | 0 |" in text  # noqa: RUF001  a dash
    assert "Expected: the reference has .195\n\n![Error by t](error-by-t.png)" in text
    with (tmp_path / "error-by-t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["method", "error", "parameters"],
            ["A|B", "0.1951", "13800"],
            ["none", "", "0"],
        ]
    facts = json.loads((tmp_path / "error-by-t.json").read_text())
    assert facts["rows"][1] == {"method": "none", "error": None, "parameters": 0}
    assert facts["curves"][0] == {"label": "rises", "x": [1.0, 2.0], "y": [0.5, 0.25]}
    assert (tmp_path / "error-by-t.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_grows(tmp_path: Path) -> None:
    """With each finding the page is written anew, with all that came before."""
    report = FindingReport(tmp_path, "heading")
    plain = FINDING._replace(plot=None)
    first = report.add(plain).read_text()
    second = report.add(plain._replace(name="other", title="Other")).read_text()
    assert second.startswith(first)
    assert "## Other" in second.removeprefix(first)


def test_what_is_no_finding_is_refused(tmp_path: Path) -> None:
    """A name that is no file's, or that another has; a row that is too short."""
    report = FindingReport(tmp_path, "heading")
    report.add(FINDING._replace(plot=None))
    for wrong in (FINDING, FINDING._replace(name="../up"), FINDING._replace(name="new", rows=(("only",),))):
        with pytest.raises(ValueError, match="expected"):
            report.add(wrong)
    assert [path.name for path in tmp_path.glob("new*")] == []
