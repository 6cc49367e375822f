"""What `explain` shows: rows by size, what is left out as one, and nothing that a name could do to a terminal."""

import pytest
from click.testing import CliRunner

from stream_apple.app.explain import ExplainedPrediction
from stream_apple.cli import main
from stream_apple.cli.explain import _show
from stream_apple.monitoring.explanation import Contribution, Explanation, Predictor

NAMED = [
    Contribution("[bold]country=de[/bold] \x1b[2J", 1.0, 3.0, 3.0, (4.0, 2.0)),
    Contribution("(constant)", 1.0, -1.0, -1.0, (-1.0, -1.0)),
    Contribution("price", 0.5, 0.25, 0.125, (0.0, 0.25)),
]
PREDICTORS = [Predictor("linear", 0.5, 3.0), Predictor("apple", 0.5, 1.25)]


def shown(capsys: pytest.CaptureFixture[str], explanations: list[Explanation], top: int, equal: bool | None) -> str:  # noqa: FBT001
    """What is printed."""
    prediction = {"prediction": 2.0, "label": None, "loss": None}
    _show(ExplainedPrediction("examples", 3, 90210, "f" * 16, prediction, explanations, prediction, equal), top)
    return capsys.readouterr().out


def test_a_mixture(capsys: pytest.CaptureFixture[str]) -> None:
    """A column for each predictor, with its sum and share; what is not shown is one row."""
    out = shown(capsys, [Explanation(0.0, NAMED, PREDICTORS).of_score(2.0)], 1, equal=True)
    assert "examples-3@90210" in out
    assert "equal to what was published, to the byte" in out
    assert "[bold]country=de[/bold]" in out
    assert "\x1b[2J" not in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert rows["(2"] == ["(2", "others)", "-0.875", "-1", "-0.75"]
    assert rows["(rest)"] == ["(rest)", "-0.125"]
    assert rows["sum"] == ["sum", "+2", "+3", "+1.25"]
    assert rows["share"][-2:] == ["0.5", "0.5"]


def test_classes(capsys: pytest.CaptureFixture[str]) -> None:
    """A column for each of the most probable ones, the most probable first; two products of one name are one row."""
    twice = [*NAMED, Contribution("price", 0.5, 0.25, 0.125)]
    explanations = [Explanation(0.0, twice, [], label).of_score(label / 2.0) for label in range(7)]
    out = shown(capsys, explanations, 20, equal=False)
    assert "what was published DIFFERS" in out
    header = next(line for line in out.splitlines() if "class" in line)
    assert header.split()[2:] == ["class", "6", "class", "5", "class", "4", "class", "3", "class", "2"]
    price = next(line for line in out.splitlines() if "price" in line)
    assert price.split() == ["price", "0.5", *["+0.25"] * 5]


def test_nothing_was_published(capsys: pytest.CaptureFixture[str]) -> None:
    """It is told, and the rest all the same."""
    assert "has no answer to this example" in shown(capsys, [Explanation(0.0, NAMED, []).of_score(2.0)], 5, equal=None)


@pytest.mark.parametrize("place", ["3", "3@", "@7", "3@-1", "a@b", "3@9021000000000000000000", "\u0663@7", "3@7 "])
def test_a_place_is_partition_and_offset(place: str) -> None:
    """Anything else is refused with an example of one."""
    found = CliRunner().invoke(main, ["explain", "--prediction", place])
    assert found.exit_code == 2
    assert "such as 3@90210" in found.output
