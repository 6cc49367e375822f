"""The table of what doesn't go together: each row refuses, says both sides, and stands in the documentation."""

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_apple.learners.apple.options import DECLARED, IntegerBounds, NumberBounds, Options, contradictions
from stream_apple.learners.apple.options.conditions import Condition
from stream_apple.learners.apple.options.contradictions import CONTRADICTIONS, Contradiction

PAGE = Path(__file__).parents[4] / "docs" / "choosing-a-learner.md"
TRIED: dict[str, tuple[object, ...]] = {
    **{name: each.choices for name, each in DECLARED.items() if each.choices},
    "alpha": (0.5, 1.0),
    "parents": (1.0, 2.0),
    "fallback": (False, True),
    "product_budget": (0, 9),
    "budget_per_feature": (0.0, 12.0),
    "max_degree": (4, 250),
    "votes": ("all", "sampled"),
    "shrinkage": (0.0, 0.001),
    "stack_loss": ("plain", "clipped", "log"),
    "early_growth": (0, 60),
    "rehearsal": ("off", "on"),
    "label_units": (0, 10),
    "pending_labels": (0, 2_000, 2_001),
    "classes": (0, 1, 3),
    "l2": (0.0, 0.1),
    "ngrams": ((), (("text", 2),)),
}
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"combine": "off"},
    {"loss": "logistic"},
    {"loss": "logistic", "combine": "off"},
    {"loss": "logistic", "combine": "off", "descent": "plain", "l2": 0.1},
    {"loss": "softmax", "classes": 3},
    {"loss": "softmax", "classes": 3, "combine": "off"},
    {"method": "linear"},
    {"method": "linear", "loss": "logistic"},
    {"method": "linear", "loss": "logistic", "descent": "plain", "l2": 0.1},
    {"method": "linear", "loss": "softmax", "classes": 3},
    {"method": "linear", "discretise": "spline"},
)


def named(row: Contradiction) -> str:
    """A test's name."""
    return "-".join([each.option for each in row.given] + [row.demanded.option])


def offenders(row: Contradiction) -> Iterator[dict[str, Any]]:
    """Choices for which all that the row has given holds, and what it demands does not."""
    sides = [[value for value in TRIED[each.option] if each.holds(value)] for each in row.given]
    wrong = [value for value in TRIED[row.demanded.option] if not row.demanded.holds(value)]
    for kind in KINDS:
        for *given, found in itertools.product(*sides, wrong):
            chosen = dict(zip((each.option for each in row.given), given, strict=True))
            yield {**kind, **chosen, row.demanded.option: found}


def told(chosen: dict[str, Any]) -> str:
    """What is said against these choices; "" if nothing is."""
    try:
        Options(**chosen)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("row", CONTRADICTIONS, ids=named)
def test_each_row_refuses_and_names_all_sides(row: Contradiction) -> None:
    """Some choices are refused by it, before any other row; without what it demands being broken they pass it."""
    start = f"{row.demanded.option}: expected {row.demanded.spelled()} with "
    for chosen in offenders(row):
        said = told(chosen)
        if not said.startswith(start):
            continue
        given, found = said.removeprefix(start).split(", found ")
        values = [chosen.get(each.option) for each in row.given]
        shown = [f"{value:g}" if isinstance(value, float) else str(value) or "''" for value in values]
        parts = given.split(" and ")
        if [part.split()[0] for part in parts] != [each.option for each in row.given]:
            continue  # another row that demands the same
        assert [part.split()[-1] for part in parts] == shown
        wrong = chosen[row.demanded.option]
        assert found == repr(dict(wrong) if isinstance(wrong, tuple) else wrong)
        return
    pytest.fail(f"nothing is refused by {row}")


def test_no_two_rows_say_the_same() -> None:
    """A pair of options has one row for each pair of values."""
    pairs = [(row.given, row.demanded.option) for row in CONTRADICTIONS]
    assert all(pairs.count(pair) == 1 for pair in pairs)


def test_the_table_alone_says_what_contradicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, all of what its rows refuse is taken, but for what is no value of an option by itself."""
    refused = [chosen for row in CONTRADICTIONS for chosen in offenders(row)]
    assert all(told(chosen) for chosen in refused)
    monkeypatch.setattr(contradictions, "CONTRADICTIONS", ())
    assert not any(told(chosen) for chosen in refused)


def test_no_number_is_no_value() -> None:
    """NaN and None are within no bounds."""
    bounded = [row.demanded for row in CONTRADICTIONS if isinstance(row.demanded.values, IntegerBounds | NumberBounds)]
    assert {each.option for each in bounded} == {"classes", "l2", "pending_labels"}
    assert not any(each.holds(value) for each in bounded for value in (math.nan, None, "2"))


def shown(condition: Condition) -> str:
    """As the page has it."""
    return f"`{condition.option}` {condition.spelled()}"


def table_of_the_page() -> list[str]:
    """Its rows: what is given, what is demanded then, and why."""
    rows = ["| with | only | because |", "|---|---|---|"]
    for (given, because), group in itertools.groupby(CONTRADICTIONS, lambda row: (row.given, row.because)):
        demanded = "; ".join(shown(row.demanded) for row in group)
        rows.append(f"| {' and '.join(map(shown, given))} | {demanded} | {because} |")
    return rows


def test_the_documentation_shows_the_table() -> None:
    """Row for row; where it does not, what should stand there is printed."""
    expected = "\n".join(table_of_the_page())
    found = PAGE.read_text().partition("## What does not go together\n")[2].partition("\n## ")[0]
    assert expected in found, f"expected in {PAGE.name}:\n{expected}"
