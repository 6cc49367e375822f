"""The paper's counts over its sets, made over these; and which methods are better, where seeds allow a verdict."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from study.methods import BASELINES
from study.report.derived import PairedDifference, geometric_mean, paired_difference, quartiles, ratio
from study.report.markdown import NOTHING, spelled, table
from study.report.outcomes import STAGE_POLY_BEST, VOWPAL_BEST, Line, Outcome, Outcomes
from study.report.paper import PaperRow

STAGE_POLY = "vw-stage-poly"
SLOW = 2.0
"""Sets on which quadratic takes so many times as long as linear are those of the paper's Figure 3."""


_COUNTS = ["sets", "below 0", "below 0.5", "wins", "median rel. error", "median rel. time", "time at most 10"]


def counts(outcomes: Outcomes) -> list[str]:
    """Count the sets with a relative error below 0 and below 0.5, a least error, and a tolerable time; show medians."""
    names = [facts.name for facts in outcomes.sets]
    rows = [
        _counted(
            line.label,
            [outcomes.relative_error(line, name) for name in names],
            [outcomes.relative_time(line, name) for name in names],
            sum(
                wins(outcomes.get(line.label, name).error, [outcomes.get(each, name).error for each in BASELINES])
                for name in names
            ),
        )
        for line in outcomes.lines
    ]
    return table(["method", *_COUNTS], rows)


def paper_counts(paper: Mapping[str, PaperRow], lines: Sequence[Line]) -> list[str]:
    """Return what `counts` does, for the paper's own table."""
    rows = [
        _counted(
            line.label,
            [row.relative_error(line.label) for row in paper.values()],
            [row.relative_time(line.label) for row in paper.values()],
            sum(wins(row.errors.get(line.label), [row.errors[each] for each in BASELINES]) for row in paper.values()),
        )
        for line in lines
        if any(line.label in row.errors for row in paper.values())
    ]
    return table(["method, in the paper", *_COUNTS], rows)


def _counted(label: str, errors: Sequence[float | None], times: Sequence[float | None], won: int) -> list[str]:
    """Return a row: how many errors are known, how many beat the baseline, their median, and that of the times."""
    known = [error for error in errors if error is not None]
    timed = [time for time in times if time is not None]
    return [
        label,
        str(len(known)),
        str(sum(error < 0 for error in known)),
        str(sum(error < 0.5 for error in known)),
        str(won),
        spelled(quartiles(known)[1], 3) if known else NOTHING,
        spelled(quartiles(timed)[1], 3) if timed else NOTHING,
        f"{sum(time <= 10 for time in timed)} of {len(timed)}" if timed else NOTHING,
    ]


def wins(error: float | None, baselines: Sequence[float | None]) -> bool:
    """Return whether none of the baselines has a lower error, and one has a higher."""
    known = [each for each in baselines if each is not None]
    return error is not None and bool(known) and error <= min(known) and error < max(known)


def comparison(outcomes: Outcomes, reference: str) -> list[str]:
    """Show each claimed line's error less the reference's, set by set, with standard errors; and the sums."""
    lines = [line for line in outcomes.claimed() if line.label != reference]
    names = [facts.name for facts in outcomes.sets]
    found = [
        [
            paired_difference(outcomes.get(line.label, name).errors, outcomes.get(reference, name).errors)
            for name in names
        ]
        for line in lines
    ]
    rows = [[name, *map(_difference, differences)] for name, *differences in zip(names, *found, strict=True)]
    sums = [_sums([each for each in differences if each is not None]) for differences in found]
    return table([f"error less that of {reference}", *(line.label for line in lines)], [*rows, ["all", *sums]])


def _difference(found: PairedDifference | None) -> str:
    if found is None:
        return NOTHING
    spread = "" if found.standard_error is None else f" ± {spelled(found.standard_error, 2)}"
    return f"{'+' if found.mean > 0 else ''}{spelled(found.mean, 3)}{spread}: {found.verdict}"


def _sums(found: Sequence[PairedDifference]) -> str:
    said = Counter(each.verdict for each in found)
    return ", ".join(f"{count} {verdict}" for verdict, count in said.most_common()) or NOTHING


def means(outcomes: Outcomes) -> list[str]:
    """Show geometric means over the sets, with one standard error to each side."""
    rows = [
        [
            line.label,
            _mean(outcomes, line.label, "linear", attrgetter("loss")),
            _mean(outcomes, line.label, "linear", attrgetter("error")),
            _mean(outcomes, line.label, STAGE_POLY, attrgetter("error")),
        ]
        for line in outcomes.claimed()
    ]
    header = ["method", "progressive loss over linear", "test error over linear", f"test error over {STAGE_POLY}"]
    return table(header, rows)


def beside_hindsight(outcomes: Outcomes) -> list[str]:
    """Show progressive errors over those of the best of Vowpal Wabbit's settings, set by set, and their means.

    The table is empty where not all of its settings were run.
    """
    ours = [line for line in outcomes.claimed() if not line.is_vowpal]
    if not ours or not any(line.label == VOWPAL_BEST for line in outcomes.lines):
        return []
    rows = []
    for facts in outcomes.sets:
        row = [facts.name]
        for best in (VOWPAL_BEST, STAGE_POLY_BEST):
            outcome = outcomes.get(best, facts.name)
            row.append(
                NOTHING if outcome.label is None else f"{spelled(outcome.error_before_learning)} ({outcome.label})"
            )
        for line in ours:
            error, over = outcomes.get(line.label, facts.name).error_before_learning, []
            for best in (VOWPAL_BEST, STAGE_POLY_BEST):
                quotient = ratio(error, outcomes.get(best, facts.name).error_before_learning)
                over.append(NOTHING if quotient is None else f"{quotient:.3f}")
            row.append(f"{spelled(error)} ({', '.join(over)})")
        rows.append(row)
    sums = [
        "; ".join(
            _mean(outcomes, line.label, best, attrgetter("error_before_learning"))
            for best in (VOWPAL_BEST, STAGE_POLY_BEST)
        )
        for line in ours
    ]
    header = ["progressive error", "best of Vowpal Wabbit's settings in hindsight", "best of `--stage_poly`'s"]
    return table(
        [*header, *(line.label for line in ours)], [*rows, ["geometric mean over both", NOTHING, NOTHING, *sums]]
    )


def _mean(outcomes: Outcomes, label: str, reference: str, value: Callable[[Outcome], float | None]) -> str:
    if label == reference:
        return NOTHING
    names = [facts.name for facts in outcomes.sets]
    found = geometric_mean((value(outcomes.get(label, name)), value(outcomes.get(reference, name))) for name in names)
    if found is None:
        return NOTHING
    spread = "" if found.low is None else f" ({found.low:.3f} to {found.high:.3f})"
    left_out = f", {found.left_out} with a 0 left out" if found.left_out else ""
    return f"{found.mean:.3f}{spread}, {found.sets} sets{left_out}"
