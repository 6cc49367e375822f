"""What outcomes say, against what was worked out by hand."""

import pytest
from support.made_up_outcomes import LARGE, LINES, NAMES, made_up_outcomes

from study.report.claims import beside_hindsight, comparison, counts, means, wins
from study.report.outcomes import (
    STAGE_POLY_BEST,
    VOWPAL_BEST,
    Line,
    Outcome,
    best_of,
    chosen_of,
    worst_ratio,
)
from study.tasks import LossesSoFar


def rows_of(lines: list[str]) -> dict[str, list[str]]:
    """First column -> the others, of a table in markdown."""
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("|")]
    return {row[0]: row[1:] for row in cells}


def test_relative_numbers() -> None:
    """Of set one: apple's errors .1 and .25 between .2 and .4; times over linear's."""
    outcomes = made_up_outcomes()
    assert outcomes.relative_error(LINES[3], "one") == pytest.approx(-0.5)
    assert outcomes.relative_error(LINES[4], "one") == pytest.approx(0.25)
    assert outcomes.relative_error(LINES[4], "tie") is None
    assert outcomes.relative_time(LINES[4], "two") == pytest.approx(15.0)
    assert outcomes.relative_time(LINES[5], "two") is None, "Vowpal Wabbit's time needs Vowpal Wabbit's linear"


def test_counts() -> None:
    """Alpha = 1 has relative errors .25, .5 and -.1: one below 0, two below .5; it wins on one; times 6, 15, 4, 1."""
    found = rows_of(counts(made_up_outcomes()))
    assert found[LARGE] == ["3", "1", "2", "1", "0.250", "5.00", "3 of 4"]
    assert found["cubic"] == ["3", "0", "1", "1", "0.600", "27.5", "2 of 4"]
    assert found["vw-stage-poly"][-1] == "–"  # noqa: RUF001  a dash


@pytest.mark.parametrize(
    ("error", "baselines", "won"),
    [(0.1, [0.2, 0.3], True), (0.2, [0.2, 0.3], True), (0.2, [0.2, 0.2], False), (0.1, [0.2, 0.2], True),
     (0.3, [0.2, 0.4], False), (None, [0.2], False), (0.1, [None], False), (0.1, [None, 0.2], True)],
)  # fmt: skip
def test_wins(error: float | None, baselines: list[float | None], won: bool) -> None:  # noqa: FBT001  of the table
    """Ties with the best count, unless all are equal."""
    assert wins(error, baselines) is won


def test_comparison_makes_claims_outside_of_the_noise_only() -> None:
    """The made-up seeds have the same difference each, but for rounding: any difference counts."""
    found = rows_of(comparison(made_up_outcomes(), "linear"))
    assert found["one"][0].endswith(": better")
    assert found["two"][0].endswith(": worse")
    assert found["tie"][0].endswith(": equal")
    assert found["all"][0] == "2 better, 1 worse, 1 equal"


def test_geometric_means_leave_out_zeros() -> None:
    """Over stage_poly .25/.3, .4/.2 and .39/.5: the third root of 1.3."""
    found = rows_of(means(made_up_outcomes()))
    assert found[LARGE][2].startswith(f"{1.3 ** (1 / 3):.3f} (")
    assert found[LARGE][2].endswith("3 sets, 1 with a 0 left out")


def test_the_best_of_vowpal_s_settings_in_hindsight() -> None:
    """The least progressive error, set by set; the mean is that of the ratios .1/.3, .3/.2 and .42/.5, their root."""
    outcomes = made_up_outcomes()
    assert beside_hindsight(outcomes) == [], "not all settings were run"
    cells = dict(outcomes.cells)
    for label in (VOWPAL_BEST, STAGE_POLY_BEST):
        for name in NAMES:
            cells[label, name] = outcomes.cells["vw-stage-poly", name]._replace(label="vw-coin")
    lines = [*(line for line in LINES if line != LINES[4]), Line(VOWPAL_BEST, VOWPAL_BEST)]
    found = rows_of(beside_hindsight(outcomes._replace(lines=lines, cells=cells)))
    assert found["one"] == ["0.3000 (vw-coin)", "0.3000 (vw-coin)", "0.1000 (0.333, 0.333)"]
    assert found["tie"][-1] == "0 (–, –)"  # noqa: RUF001  dashes
    assert found["geometric mean over both"][-1].startswith(f"{(0.1 * 0.3 * 0.42 / 0.03) ** (1 / 3):.3f} (")


def test_best_and_chosen() -> None:
    """The best has the least mean error; the chosen one the least progressive loss, seed by seed."""
    first = Outcome(errors=[0.2, 0.2], losses=[0.5, 0.7], seconds=1.0)
    second = Outcome(errors=[0.1, 0.4], losses=[0.6, 0.6], seconds=2.0)
    failed = Outcome(errors=[None, None], losses=[None, None])
    assert best_of([second, first, failed]) == first
    chosen = chosen_of([second, first, failed])
    assert chosen is not None
    assert (chosen.errors, chosen.losses, chosen.seconds) == ([0.2, 0.4], [0.5, 0.6], 1.0)
    assert best_of([failed]) is chosen_of([failed]) is None


def test_worst_ratio() -> None:
    """Of all epochs of all seeds; without linear alongside there is none."""
    seeds = [
        [LossesSoFar(10, 0.5, 0.5), LossesSoFar(20, 0.44, 0.4)],
        [LossesSoFar(10, 0.6, 0.5), LossesSoFar(20, 0.1, 0.0)],
    ]
    found = worst_ratio(seeds)
    assert found is not None
    assert found[0] == pytest.approx(1.2)
    assert found[1] == 1
    assert worst_ratio([[LossesSoFar(10, 0.5, None)]]) is worst_ratio([]) is None
