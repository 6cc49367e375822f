"""`stream-apple evaluate`: each option of the learner does what it says, and contradictions are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.evaluate_command import evaluate


def test_numbers_may_be_intervals(tmp_path: Path) -> None:
    """A label that holds within a band of a number: a line can't tell, intervals can."""
    values = np.random.default_rng(5).normal(size=4000)
    path = tmp_path / "band.vw"
    path.write_text("".join(f"{1 if abs(value) < 0.7 else -1} |f x:{value:.5f}\n" for value in values))
    given = ["--json", "--method", "linear", "--discretise", "quantile"]
    errors = {
        choice: json.loads(evaluate(path, *options).stdout)["test_error"]
        for choice, options in {
            "none": given[:3],
            "quantile": [*given, "--bins", "16", "--reservoir", "300"],
            "of a namespace": [*given, "--discretise-namespaces", "e,f"],
            "of another": [*given, "--discretise-namespaces", "e"],
        }.items()
    }
    assert errors["none"] == errors["of another"] > 0.4
    mistyped = evaluate(
        path, "--discretise-namespaces", "f,F", "--personalise", "user", "--ngrams", "f=2,text=3,name=1,*=2"
    )
    told = [line.partition(":")[2] for line in mistyped.stderr.splitlines()]
    assert [line.partition(", so ")[2].partition(" has")[0] for line in told] == [
        "--personalise",
        "--ngrams",
        "--discretise-namespaces",
    ]
    assert [line.partition("namespace ")[2].partition(",")[0] for line in told] == ["'user'", "'text'", "'F'"]
    assert errors["quantile"] < 0.1
    assert errors["of a namespace"] < 0.1
    refused = evaluate(path, "--discretise", "none", "--bins", "8")
    assert refused.exit_code == 2
    assert "--bins: expected 12 with discretise = none, found 8" in refused.output


@pytest.mark.parametrize("selection", ["mi", "cv"])
def test_tuples_of_attributes(tmp_path: Path, selection: str) -> None:
    """Of categories, whose attribute is what the name says before "="; half of the pairs are left out on the way."""
    rng = np.random.default_rng(6)
    path = tmp_path / "cards.jsonl"
    lines = [
        json.dumps({"label": 1 if row[0] == row[1] else -1, "features": {f"c{i}": f"v{v}" for i, v in enumerate(row)}})
        for row in rng.integers(0, 3, (6000, 4)).tolist()
    ]
    path.write_text("\n".join(lines) + "\n")
    given = ("--method", "tuples", "--loss", "logistic", "--selection", selection, "--selection-share", "0.5", "--json")
    found = json.loads(evaluate(path, *given).stdout)
    assert found["test_error"] == 0 < found["linear_test_loss"] - 0.5
    assert 1 + 4 + 3 < found["features_per_example"] < 1 + 4 + 6
    refused = evaluate(path, "--method", "tuples", "--selection", "mi")
    assert "--selection: expected cv with method tuples and loss squared, found 'mi'" in refused.output
    assert "--order: expected 0 with method apple, found 2" in evaluate(path, "--order", 2).output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--combine", "off"),
        ("--combine", "off", "--selection", "ssm"),
        ("--combine", "off", "--fallback"),
        ("--combine", "off", "--parents", 0.5),
        ("--product-budget", 12),
        ("--selection", "weight", "--parents", 1),
        ("--combine", "off", "--loss", "logistic", "--descent", "plain", "--l2", 0.01),
        ("--method", "cubic"),
        ("--l2", 0.001),
        ("--l1", 0.0001),
        ("--loss", "logistic", "--selection", "mi"),
        ("--loss", "logistic", "--warm-start", "naive_bayes"),
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
        (("--selection", "ssm"), "--selection: expected evidence, weight or mi with combine = mix, found 'ssm'"),
        (("--method", "linear", "--combine", "mix"), "--combine: expected off with method linear, found 'mix'"),
        (("--combine", "off", "--product-budget", 9), "--product-budget: expected 0 with combine = off, found 9"),
        (
            ("--selection", "mi"),
            "--selection: expected evidence, weight or ssm with method apple and loss squared, found 'mi'",
        ),
        (("--warm-start", "naive_bayes"), "--warm-start: expected none with loss squared, found 'naive_bayes'"),
        (("--descent", "plain", "--l2", 0.1), "--descent: expected adaptive with combine = mix, found 'plain'"),
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(pairs: Path, arguments: tuple[object, ...], fault: str) -> None:
    """By their names on the command line."""
    result = evaluate(pairs, *arguments)
    assert result.exit_code == 2
    assert fault in " ".join(result.stderr.split())
