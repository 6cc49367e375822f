"""The table of what doesn't go together: each row refuses, says both sides, and stands in the documentation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_apple.learners.apple.options import DECLARED, IntegerBounds, Options, contradictions
from stream_apple.learners.apple.options.contradictions import CONTRADICTIONS, Contradiction, in_words, spelled

PAGE = Path(__file__).parents[4] / "docs" / "choosing-a-learner.md"
TRIED: dict[str, tuple[object, ...]] = {
    **{name: each.choices for name, each in DECLARED.items() if each.choices},
    **dict.fromkeys(("mixture", "mergeable", "fallback"), (False, True)),
    "alpha": (0.5, 1.0),
    "theorem1_lambda": (0.01, 0.1),
    "max_products": (9, 1_000),
    "max_degree": (4, 250),
    "classes": (0, 1, 3),
}
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"mixture": False},
    {"loss": "logistic"},
    {"loss": "logistic", "mixture": False},
    {"loss": "logistic", "mixture": False, "steps": "theorem1"},
    {"loss": "softmax", "classes": 3},
    {"loss": "softmax", "classes": 3, "mixture": False},
    {"method": "linear"},
    {"method": "linear", "loss": "logistic"},
)
DEMANDS = [(row, name) for row in CONTRADICTIONS for name in row.demanded]


def holds(row: Contradiction, name: str, value: Any) -> bool:
    """Whether the row allows this value of an option that it demands something of."""
    allowed = row.demanded[name]
    return allowed.hold(value) if isinstance(allowed, IntegerBounds) else value in allowed


def offenders(row: Contradiction, name: str) -> Iterator[dict[str, Any]]:
    """Choices that have what the row is about, and not what it demands of this option."""
    for kind in KINDS:
        for given in row.values:
            for found in TRIED[name]:
                if not holds(row, name, found):
                    yield {**kind, row.option: given, name: found}


def told(chosen: dict[str, Any]) -> str:
    """What is said against these choices; "" if nothing is."""
    try:
        Options(**chosen)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("row", "name"), DEMANDS, ids=[f"{row.option}-{name}" for row, name in DEMANDS])
def test_a_row_refuses_and_names_both_sides(row: Contradiction, name: str) -> None:
    """Some choices are refused by it, before any other row."""
    start = f"{name}: expected {spelled(row.demanded[name])} with {row.option} "
    said = [(chosen, message) for chosen in offenders(row, name) if (message := told(chosen)).startswith(start)]
    assert said
    for chosen, message in said:
        given, found = message.removeprefix(start).removeprefix("= ").split(", found ")
        assert (given, found) == (in_words(chosen[row.option]), repr(chosen[name]))


def test_the_table_alone_says_what_contradicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, all of what its rows refuse is taken, but for what is no value of an option by itself."""
    refused = [chosen for row, name in DEMANDS for chosen in offenders(row, name)]
    assert all(told(chosen) for chosen in refused)
    monkeypatch.setattr(contradictions, "CONTRADICTIONS", ())
    assert not any(told(chosen) for chosen in refused)


def table_of_the_page() -> list[str]:
    """Its rows: what is given, what is demanded then, and why."""
    rows = ["| with | only | because |", "|---|---|---|"]
    for row in CONTRADICTIONS:
        demanded = "; ".join(f"`{name}` {spelled(allowed)}" for name, allowed in row.demanded.items())
        rows.append(f"| `{row.option}` {spelled(row.values)} | {demanded} | {row.because} |")
    return rows


def test_the_documentation_shows_the_table() -> None:
    """Row for row; where it does not, what should stand there is printed."""
    expected = "\n".join(table_of_the_page())
    found = PAGE.read_text().partition("## What does not go together\n")[2].partition("\n## ")[0]
    assert expected in found, f"expected in {PAGE.name}:\n{expected}"
