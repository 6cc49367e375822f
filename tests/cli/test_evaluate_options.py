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
    mistyped = evaluate(path, "--discretise-namespaces", "f,F", "--ngrams", "f=2,text=3,name=1,*=2")
    told = [line.partition(":")[2] for line in mistyped.stderr.splitlines()]
    assert [line.partition(", so ")[2].partition(" has")[0] for line in told] == [
        "--ngrams",
        "--discretise-namespaces",
    ]
    assert [line.partition("namespace ")[2].partition(",")[0] for line in told] == ["'text'", "'F'"]
    assert errors["quantile"] < 0.1
    assert errors["of a namespace"] < 0.1
    refused = evaluate(path, "--discretise", "none", "--bins", "8")
    assert refused.exit_code == 2
    assert "--bins: expected 12 with discretise = none, found 8" in refused.output


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
        (("--selection", "ssm"), "--selection: expected evidence or weight with combine = mix, found 'ssm'"),
        (("--method", "linear", "--combine", "mix"), "--combine: expected off with method linear, found 'mix'"),
        (("--combine", "off", "--product-budget", 9), "--product-budget: expected 0 with combine = off, found 9"),
        (("--descent", "plain", "--l2", 0.1), "--descent: expected adaptive with combine = mix, found 'plain'"),
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(pairs: Path, arguments: tuple[object, ...], fault: str) -> None:
    """By their names on the command line."""
    result = evaluate(pairs, *arguments)
    assert result.exit_code == 2
    assert fault in " ".join(result.stderr.split())
