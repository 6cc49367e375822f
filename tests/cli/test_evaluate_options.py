"""`stream-apple evaluate`: each option of the learner does what it says, and contradictions are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.evaluate_command import evaluate


def test_numbers_may_be_splines(tmp_path: Path) -> None:
    """A label that holds within a band of a number: a line can't tell, splines can."""
    values = np.random.default_rng(5).normal(size=4000)
    path = tmp_path / "band.vw"
    path.write_text("".join(f"{1 if abs(value) < 0.7 else -1} |f x:{value:.5f}\n" for value in values))
    errors = {
        choice: json.loads(evaluate(path, "--json", "--method", "linear", "--discretise", choice).stdout)["test_error"]
        for choice in ("none", "spline")
    }
    assert errors["none"] > 0.4
    assert errors["spline"] < 0.1


def test_a_namespace_that_no_example_has_is_named(tmp_path: Path) -> None:
    """It is mistyped, as a rule, and then nothing follows from it."""
    path = tmp_path / "words.vw"
    path.write_text("1 |f a b\n-1 |f b a\n" * 20)
    (line,) = evaluate(path, "--ngrams", "f=2,text=3,name=1,*=2").stderr.splitlines()
    assert "in the namespace 'text', so --ngrams has no effect there" in line


@pytest.mark.parametrize(
    "arguments",
    [
        ("--no-mixture",),
        ("--no-mixture", "--selection", "ssm"),
        ("--no-mixture", "--fallback"),
        ("--no-mixture", "--alpha", 0.5),
        ("--max-products", 12),
        ("--mergeable",),
        ("--no-mixture", "--loss", "logistic", "--steps", "theorem1", "--theorem1-lambda", 0.01),
        ("--method", "cubic"),
    ],
    ids=str,
)
def test_each_option_of_the_learner_is_another_model(pairs: Path, arguments: tuple[object, ...]) -> None:
    """It learns with it, and something else than without; and better than chance."""
    result = json.loads(evaluate(pairs, "--json", *arguments).stdout)
    usual = json.loads(evaluate(pairs, "--json").stdout)
    assert result["progressive_loss"] != usual["progressive_loss"]
    assert result["progressive_loss"] < 0.98 * result["best_constant_loss"]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--selection", "ssm"), "--selection: expected weight with mixture = true, found 'ssm'"),
        (("--method", "linear", "--mixture"), "--mixture: expected false with method linear, found True"),
        (("--no-mixture", "--max-products", 9), "--max-products: expected 1000 with mixture = false, found 9"),
        (
            ("--steps", "theorem1", "--theorem1-lambda", 0.1),
            "--steps: expected adaptive with mixture = true, found 'theorem1'",
        ),
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(pairs: Path, arguments: tuple[object, ...], fault: str) -> None:
    """By their names on the command line."""
    result = evaluate(pairs, *arguments)
    assert result.exit_code == 2
    assert fault in " ".join(result.stderr.split())
