"""`stream-apple evaluate`: the protocol, the numbers, and what it says of unusable files."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.cli.evaluate import command
from stream_apple.study.evaluation import Plan, epoch_ends
from stream_apple.study.plot import learning_curve

KEYS = [
    "method", "examples", "progressive_loss", "progressive_error", "test_loss", "test_error",
    "features_per_example", "parents", "seconds",
]  # fmt: skip


def evaluate(*arguments: object) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(command, list(map(str, arguments)))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """3,000 examples whose label is the exclusive or of two features, among others that say nothing."""
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 2, (3000, 6))
    lines = [
        f"{1 if a != b else -1} | {'a' if a else 'A'} {'b' if b else 'B'} "
        + " ".join(f"n{i}" for i in np.flatnonzero(rest))
        for a, b, *rest in bits.tolist()
    ]
    path = tmp_path / "pairs.vw"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_json_has_the_documented_keys(pairs: Path) -> None:
    """One object with these keys in this order."""
    result = json.loads(evaluate(pairs, "--json").stdout)
    assert list(result) == KEYS
    assert result["examples"] == 3000


def test_apple_learns_what_linear_cannot(pairs: Path) -> None:
    """On an exclusive or, linear stays at chance, and apple and quadratic find the products."""
    results = {
        method: json.loads(evaluate(pairs, "--json", "--method", method).stdout)
        for method in ("linear", "quadratic", "apple")
    }
    assert results["linear"]["test_error"] > 0.35
    assert results["apple"]["test_error"] == results["quadratic"]["test_error"] == 0
    assert results["apple"]["parents"] > 0 == results["linear"]["parents"]
    assert results["linear"]["features_per_example"] < results["apple"]["features_per_example"]


def test_predictions_are_one_a_training_example_and_give_the_loss(pairs: Path, tmp_path: Path) -> None:
    """The file's mean squared error is the progressive loss, to the bit, without a shuffle and a test part."""
    out = tmp_path / "out.txt"
    arguments = ("--no-shuffle", "--test-fraction", 0, "--predictions", out, "--json")
    result = json.loads(evaluate(pairs, *arguments).stdout)
    predictions = np.array([float(line) for line in out.read_text().splitlines()])
    labels = np.array([float(line.split()[0]) for line in pairs.read_text().splitlines()])
    assert np.cumsum((predictions - labels) ** 2)[-1] / 3000 == result["progressive_loss"]
    assert result["progressive_error"] == pytest.approx(np.mean((predictions > 0) != (labels > 0)))
    assert result["test_loss"] is result["test_error"] is None


def test_seed_decides_the_split(pairs: Path) -> None:
    """The same seed gives the same result, another seed another."""
    first, again, other = (
        {k: v for k, v in json.loads(evaluate(pairs, "--json", "--seed", seed).stdout).items() if k != "seconds"}
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_logistic_takes_labels_0_and_1(tmp_path: Path) -> None:
    """0 counts as -1; any other label is refused with file, example and reason."""
    path = tmp_path / "clicks.svm"
    path.write_text("1 1:1\n0 2:1\n" * 200)
    result = json.loads(evaluate(path, "--json", "--loss", "logistic").stdout)
    assert result["test_error"] == 0
    assert result["test_loss"] < 0.2
    path.write_text("1 1:1\n3 2:1\n")
    error = evaluate(path, "--loss", "logistic").exception
    assert "clicks.svm, example 2" in str(error)


def test_rows_without_features_are_learned_by_the_constant(tmp_path: Path) -> None:
    """Real sets have such rows; they count."""
    path = tmp_path / "bare.svm"
    path.write_text("1\n" * 50 + "1 3:1\n" * 50)
    result = json.loads(evaluate(path, "--json").stdout)
    assert result["examples"] == 100
    assert result["test_loss"] < 0.1


def test_no_examples_is_an_error(tmp_path: Path) -> None:
    """An empty file is named."""
    path = tmp_path / "empty.svm"
    path.write_text("")
    assert "expected at least one example" in str(evaluate(path).exception)


def test_plot_is_drawn(pairs: Path, tmp_path: Path) -> None:
    """--plot writes a picture."""
    out = tmp_path / "curve.png"
    assert evaluate(pairs, "--plot", out).exit_code == 0
    assert out.read_bytes().startswith(b"\x89PNG")


@given(examples=st.integers(0, 5000), epochs=st.integers(1, 20), doubling=st.integers(0, 2000))
def test_epoch_ends_are_ascending_and_cover_everything(examples: int, epochs: int, doubling: int) -> None:
    """At most `epochs` parts of equal length, or ends at doubling * 2^k; the last end is the last example."""
    ends = epoch_ends(examples, Plan(epochs=epochs, doubling=doubling))
    lengths = np.diff([0, *ends])
    assert ends[-1] == examples
    assert (lengths > 0).all() or examples == 0
    if doubling:
        assert ends[:-1] == [doubling << k for k in range(len(ends) - 1)]
    else:
        assert len(ends) <= epochs
        assert len(set(lengths[:-1])) <= 1


def test_learning_curve_is_the_running_mean() -> None:
    """Unlabelled examples don't count; the last point is the mean."""
    curve = learning_curve([1.0, float("nan"), 3.0], points=5)
    assert curve[-1].tolist() == [2.0, 2.0]
    assert curve[0].tolist() == [1.0, 1.0]
