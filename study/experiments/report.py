"""What is written of an experiment: a page of tables with their figures, and a table for programs of each finding."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from stream_apple.errors import ConfigurationError
from stream_apple.offline.plot import empty_figure
from study.experiments.experiment import Plot, StudyFinding, TableCell
from study.report.exports import write_csv
from study.report.markdown import NOTHING, spelled, table

PAGE = "summary.md"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_MARKERS = "os^vD*Phpd"


class FindingReport:
    """Writes findings into a folder as they come, and the page anew with each, so that a stopped experiment has one.

    heading  what the page begins with: what was asked, in a line
    """

    def __init__(self, folder: Path, heading: str, notes: Sequence[str] = ()) -> None:
        self._folder = folder
        self._head = [f"# {heading}", "", *(line for note in notes for line in (f"**{note}**", ""))]
        self._sections: dict[str, list[str]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, finding: StudyFinding) -> Path:
        """Write `<name>.csv`, `<name>.json`, `<name>.png` if it has a plot, and the page, whose path is returned."""
        if not _NAME.fullmatch(finding.name) or finding.name in self._sections:
            raise ValueError(f"expected a new name of lower-case letters, digits and hyphens, found {finding.name!r}")
        if wrong := [row for row in finding.rows if len(row) != len(finding.columns)]:
            raise ValueError(f"{finding.name}: expected {len(finding.columns)} cells a row, found {len(wrong[0])}")
        write_csv(self._folder / f"{finding.name}.csv", finding.columns, finding.rows)
        facts = json.dumps(_facts(finding), indent=1, ensure_ascii=False)
        (self._folder / f"{finding.name}.json").write_text(facts + "\n", encoding="utf-8")
        self._sections[finding.name] = _section(finding, self._draw(finding))
        page = self._folder / PAGE
        lines = [*self._head, *(line for section in self._sections.values() for line in section)]
        page.write_text("\n".join(lines), encoding="utf-8")
        return page

    def _draw(self, finding: StudyFinding) -> str:
        """Return the line that shows the figure, or says why there is none; "" if there is nothing to draw."""
        path = self._folder / f"{finding.name}.png"
        path.unlink(missing_ok=True)
        if finding.plot is None or not finding.plot.curves:
            return ""
        try:
            draw_plot(finding.plot, finding.title, path)
        except ConfigurationError as error:
            return f"**No figure: {error}.**"
        return f"![{finding.title}]({path.name})"


def draw_plot(plot: Plot, title: str, path: Path) -> None:
    """Draw the curves; the suffix decides the format. ConfigurationError if matplotlib is not installed."""
    figure = empty_figure((7, 4.5))
    axes = figure.subplots()
    for place, curve in enumerate(plot.curves):
        colour = f"C{place % 10}"
        if len(curve.x) == 1:
            axes.axhline(curve.y[0], color=colour, linestyle=":" if place % 2 else "--", label=curve.label)
        else:
            axes.plot(curve.x, curve.y, color=colour, marker=_MARKERS[place % len(_MARKERS)], label=curve.label)
    axes.set(xlabel=plot.x_label, ylabel=plot.y_label, title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=150)


def _section(finding: StudyFinding, figure: str) -> list[str]:
    rows = [[_shown(cell) for cell in row] for row in finding.rows]
    lines = [f"## {finding.title}", "", *table(finding.columns, rows)]
    if finding.expected:
        lines += [f"Expected: {finding.expected}", ""]
    return [*lines, figure, ""] if figure else lines


def _shown(cell: TableCell) -> str:
    """Spell a cell: integers whole, other numbers to four significant digits."""
    if isinstance(cell, str):
        return cell.replace("|", "\\|")
    if cell is None:
        return NOTHING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:,}" if isinstance(cell, int) else spelled(cell)


def _facts(finding: StudyFinding) -> dict[str, object]:
    """Return the findings as JSON types."""
    return {
        "name": finding.name,
        "title": finding.title,
        "expected": finding.expected,
        "rows": [dict(zip(finding.columns, row, strict=True)) for row in finding.rows],
        "curves": [curve._asdict() for curve in finding.plot.curves] if finding.plot else [],
    }
