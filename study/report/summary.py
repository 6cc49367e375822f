"""`summary.md`, the paper's tables, counts and comparisons of this study, and the writing of the whole report."""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from stream_apple.errors import ConfigurationError
from study.methods import METHODS
from study.report.claims import STAGE_POLY, beside_hindsight, comparison, counts, means, paper_counts
from study.report.derived import ratio
from study.report.exports import write_tables
from study.report.figures import draw_figures
from study.report.markdown import NOTHING, emphasised, hundredths, numbers, spelled, table
from study.report.outcomes import (
    Line,
    Outcomes,
    described,
    gather_outcomes,
    label_of,
    outcome_of,
    worst_ratio,
)
from study.report.paper import PaperRow
from study.runs.campaign import Campaign, contenders

SUMMARY = "summary.md"
_COUNTED = "Of mean errors, whose differences may be noise. A win: no baseline has a lower error, and one has a higher."


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


def summary_page(campaign: Campaign, outcomes: Outcomes, paper: Mapping[str, PaperRow], notes: Sequence[str]) -> str:
    """Make the whole page.

    paper  the paper's rows by its names of the sets; empty if they are not to be shown
    notes  what the reader must know first: methods that could not be run, pictures that could not be drawn
    """
    lines = [
        *_head(campaign, outcomes, notes),
        *_measured(campaign, outcomes),
        *_products_tested(outcomes),
        *_compared(campaign, outcomes, paper),
    ]
    return "\n".join(lines) + "\n"


def _head(campaign: Campaign, outcomes: Outcomes, notes: Sequence[str]) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in campaign.versions.items() if version)
    yield from ["# Study", "", f"The protocol: {described(campaign.settings)}.", ""]
    yield from [f"{versions}; Python {platform.python_version()}.", ""]
    if (edge := _at_the_edge(campaign, outcomes)) is not None:
        yield from [edge, ""]
    for note in [*notes, *_failures(campaign)]:
        yield from [f"**{note}**", ""]
    yield from ["## Sets", "", *_sets(outcomes)]


def _measured(campaign: Campaign, outcomes: Outcomes) -> Iterator[str]:
    """Yield the tables with a row for each set: errors, seconds, relative errors, features."""
    yield from ["## Test errors (Table 2)", ""]
    yield from [
        "Share of wrong signs (binary) or mean squared error (regression), mean of the seeds; the least in bold.",
        "",
        "`-best` has the alpha of the least test error on each set, as in the paper; `-chosen` that of the least",
        "progressive loss, which can be known before the test.",
        "",
        *_by_set(outcomes, lambda line, name: outcomes.get(line.label, name).error),
    ]
    yield from ["## Seconds (Table 3)", ""]
    if campaign.settings.timing:
        loads = campaign.loads()
        span = f"{min(loads):.1f} to {max(loads):.1f}" if loads else "unknown"
        yield from [
            f"Of learning and scoring, each run alone, median of up to three; load average {span}.",
            "",
            *_by_set(
                outcomes,
                lambda line, name: outcomes.get(line.label, name).seconds,
                show=lambda values: emphasised(values, 3),
            ),
        ]
    else:
        yield from ["Not measured (`--no-timing`).", ""]
    yield from ["## Relative errors", ""]
    yield from [
        "(error - least) / (greatest - least) of linear, quadratic, and cubic: below 0 is better than all three.",
        "",
        *_by_set(outcomes, outcomes.relative_error, show=hundredths),
    ]
    yield from ["## Features per example", "", "Of seed 0, the constant among them.", ""]
    yield from _by_set(outcomes, lambda line, name: outcomes.get(line.label, name).features, show=numbers)


def _products_tested(outcomes: Outcomes) -> Iterator[str]:
    def tested(line: Line, name: str) -> float | None:
        return outcomes.get(line.label, name).tested

    picky = [line for line in outcomes.lines if any(tested(line, each.name) for each in outcomes.sets)]
    if picky:
        yield from [
            "## Products tested per example",
            "",
            "In addition to the features: products that a picky method tests before they become features.",
            "",
            *_by_set(outcomes._replace(lines=picky), tested, show=numbers),
        ]


def _compared(campaign: Campaign, outcomes: Outcomes, paper: Mapping[str, PaperRow]) -> Iterator[str]:
    """Yield counts, differences and means over the sets, and what the paper has."""
    yield from ["## Counts", "", _COUNTED, "", *counts(outcomes)]
    if paper:
        yield from paper_counts(paper, outcomes.lines)
    yield from ["## Better or worse", ""]
    yield from [
        "Differences of test errors on the same splits, ± one standard error that allows for the splits' sharing of",
        "examples. Only differences outside of the 95 % interval are called better or worse.",
        "",
        *comparison(outcomes, "linear"),
    ]
    if STAGE_POLY in campaign.settings.methods:
        yield from comparison(outcomes, STAGE_POLY)
    yield from ["Geometric means over the sets; in parentheses, one standard error to each side.", "", *means(outcomes)]
    if hindsight := beside_hindsight(outcomes):
        yield from ["## The best of Vowpal Wabbit's settings", ""]
        yield from [
            "Share of wrong signs before learning, or mean squared error. On each set, the setting of Vowpal Wabbit",
            "with the least is chosen in hindsight; its name is in parentheses. The last columns have our errors, and",
            "their ratios to the best of all its settings, and to the best of those with `--stage_poly`.",
            "",
            *hindsight,
        ]
    yield from ["## Progressive loss over linear's, after every epoch", "", *_epochs(campaign)]
    if paper:
        yield from ["## The paper's errors", "", *_beside(outcomes, paper)]


def _at_the_edge(campaign: Campaign, outcomes: Outcomes) -> str | None:
    """Say how often the best rate may lie outside of those that were tried."""
    rates = campaign.settings.rates
    if len(rates) == 1:
        return None
    known = {line.label for line in outcomes.lines if line.method in METHODS}
    chosen = [cell.rate for (label, _), cell in outcomes.cells.items() if label in known]
    count = sum(rate in {rates[0], rates[-1]} for rate in chosen)
    return f"The chosen rate is the lowest or the highest of these in {count:,} of {len(chosen):,} cases."


def _failures(campaign: Campaign) -> list[str]:
    """Name the runs without a result: all of a method's rates on a set, or one of its seeds."""
    failed = []
    for facts in campaign.sets.values():
        for contender in contenders(campaign.settings):
            if contender.method in facts.without:
                continue
            label = label_of(contender.method, contender.alpha)
            if campaign.rate(facts.name, contender) is None:
                failed.append(f"{facts.name}: {label} failed at every learning rate.")
                continue
            for seed in range(campaign.settings.seeds):
                run = campaign.measures("error", facts.name, contender, seed)
                if run is not None and run.failure is not None:
                    failed.append(f"{facts.name}: {label} failed with seed {seed}: {run.failure}")
    return failed


def _sets(outcomes: Outcomes) -> list[str]:
    header = ["set", "task", "rows", "of the file", "features (d)", "non-zeros (s)", "left out"]
    return table(
        header,
        (
            [
                facts.name,
                facts.problem,
                f"{facts.rows:,}",
                f"{facts.rows_of_file:,}",
                f"{facts.features:,}",
                spelled(facts.nonzeros),
                ", ".join(facts.without) or NOTHING,
            ]
            for facts in outcomes.sets
        ),
    )


def _by_set(
    outcomes: Outcomes,
    value: Callable[[Line, str], float | None],
    show: Callable[[list[float | None]], list[str]] = emphasised,
) -> list[str]:
    return table(
        ["set", *(line.label for line in outcomes.lines)],
        ([facts.name, *show([value(line, facts.name) for line in outcomes.lines])] for facts in outcomes.sets),
    )


def _epochs(campaign: Campaign) -> list[str]:
    """Show the worst ratio and the test error of each method that grows, at its largest alpha."""
    settings = campaign.settings
    found = [
        contender
        for contender in contenders(settings)
        if METHODS[contender.method].grows
        and not METHODS[contender.method].is_vowpal
        and contender.alpha in {None, max(settings.alphas)}
    ]
    names = [f"{label_of(each.method, each.alpha)}, {each.epochs} epochs" for each in found]
    rows = []
    for facts in sorted(campaign.sets.values(), key=lambda facts: facts.name):
        row = [facts.name]
        for contender in found:
            outcome = outcome_of(campaign, facts, contender)
            worst = None if outcome is None else worst_ratio(outcome.ends)
            if outcome is None or worst is None:
                row += [NOTHING, NOTHING]
                continue
            row += [f"{worst[0]:.3f} (epoch {worst[1]})", spelled(outcome.error)]
        rows.append(row)
    header = ["set", *(text for name in names for text in (f"{name}: worst ratio", "test error"))]
    return [
        "The greatest ratio of the published predictions' loss so far to that of the linear predictor alongside, at",
        "any end of an epoch, with any seed. Above 1, linear would have been better until then.",
        "",
        *table(header, rows),
    ]


def _beside(outcomes: Outcomes, paper: Mapping[str, PaperRow]) -> list[str]:
    labels = [line.label for line in outcomes.lines if any(line.label in row.errors for row in paper.values())]
    rows = []
    for facts in outcomes.sets:
        row = paper.get(facts.paper or facts.name)
        if row is None:
            continue
        cells = []
        for label in labels:
            ours = outcomes.get(label, facts.name).error
            theirs = row.errors.get(label)
            over = ratio(ours, theirs)
            cells.append(f"{spelled(theirs)} ({NOTHING if over is None else f'{over:.2f}'})")
        rows.append([facts.name, f"{facts.rows:,} of {row.rows:,}", *cells])
    return [
        "The paper's test errors, and in parentheses ours over the paper's. Its headings of alpha are read in reverse:",
        "see the description of the study.",
        "",
        *table(["set", "rows", *labels], rows),
    ]
