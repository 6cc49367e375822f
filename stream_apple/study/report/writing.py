"""Writing of the whole report when a study's runs are done."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from stream_apple.errors import ConfigurationError
from stream_apple.study.report.exports import write_tables
from stream_apple.study.report.figures import draw_figures
from stream_apple.study.report.outcomes import gather_outcomes
from stream_apple.study.report.paper import PaperRow
from stream_apple.study.report.summary import summary_page
from stream_apple.study.runs.campaign import Campaign

SUMMARY = "summary.md"


def write_report(campaign: Campaign, paper: Mapping[str, PaperRow], notes: Sequence[str], folder: Path) -> Path:
    """Write tables, figures and the summary of a campaign whose steps are done; return the summary's path.

    Figures without matplotlib are left out, and the summary says so.
    """
    outcomes = gather_outcomes(campaign)
    write_tables(list(campaign.finished.items()), outcomes, folder)
    try:
        missing = draw_figures(outcomes, folder)
    except ConfigurationError as error:
        missing = [f"No figures: {error}"]
    path = folder / SUMMARY
    path.write_text(summary_page(campaign, outcomes, paper, [*notes, *missing]), encoding="utf-8")
    return path
