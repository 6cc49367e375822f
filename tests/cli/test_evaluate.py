"""`stream-apple evaluate`: the schedule, the numbers, and what it says of unusable files."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.evaluate_command import evaluate

from stream_apple.core.batch import Limits
from stream_apple.learners.apple.options import Options
from stream_apple.offline.dataset import read_batch
from stream_apple.offline.evaluation import NO_LABELS
from stream_apple.offline.evaluation import Result as Pass
from stream_apple.offline.evaluation import evaluate as measured
from stream_apple.offline.schedule import Schedule

KEYS = [
    "method", "examples", "progressive_loss", "linear_progressive_loss", "best_constant_loss", "progressive_error",
    "test_loss", "linear_test_loss", "test_error", "features_per_example", "parents", "seconds",
    "expanded_progressive_loss", "expanded_test_loss",
    "progressive_auc", "progressive_calibration_error",
    "linear_progressive_auc", "linear_progressive_calibration_error",
    "expanded_progressive_auc", "expanded_progressive_calibration_error",
    "test_auc", "test_calibration_error", "linear_test_auc", "linear_test_calibration_error",
    "expanded_test_auc", "expanded_test_calibration_error",
]  # fmt: skip


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


AS_THEY_ARE = ("--mergeable", "--discretise", "none")
"""Options of a mixture whose linear predictor learns what `--method linear` does."""


def test_linear_alongside_is_linear(pairs: Path) -> None:
    """What is shown beside apple is what `--method linear` shows for itself."""
    apple, linear = (
        json.loads(evaluate(pairs, "--json", "--method", *m).stdout) for m in (("apple", *AS_THEY_ARE), ("linear",))
    )
    for part in ("progressive_loss", "test_loss"):
        assert apple[f"linear_{part}"] == pytest.approx(linear[part], rel=1e-6)
        assert linear[f"linear_{part}"] == linear[part]
    assert apple["best_constant_loss"] == linear["best_constant_loss"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("centre", [0.1, -1e8])
def test_the_best_constant_is_that_of_large_labels_too(tmp_path: Path, centre: float) -> None:
    """Its loss is the labels' variance, however small beside the labels; it is 0 if all are equal."""
    spread, rows = np.random.default_rng(5).normal(size=(2, 100)), tmp_path / "large.vw"
    labels, weights = centre + spread[0], np.abs(spread[1])
    rows.write_text("".join(f"{label} {weight} |f a\n" for label, weight in zip(labels, weights, strict=True)))
    whole = ("--json", "--test-fraction", "0")
    mean = np.average(labels, weights=weights)
    variance = np.average((labels - mean) ** 2, weights=weights)
    assert json.loads(evaluate(rows, *whole).stdout)["best_constant_loss"] == pytest.approx(variance, rel=1e-6)
    rows.write_text("".join(f"{centre} {weight} |f a\n" for weight in weights))
    assert json.loads(evaluate(rows, *whole).stdout)["best_constant_loss"] == 0.0


def test_auc_and_calibration_stand_beside_linears(pairs: Path, tmp_path: Path) -> None:
    """Where linear ranks by chance, apple ranks all right; more labels than two have no ranking."""
    result = json.loads(evaluate(pairs, "--json").stdout)
    assert result["test_auc"] == 1.0 > result["progressive_auc"] > 0.8
    assert result["linear_test_auc"] == pytest.approx(0.5, abs=0.1)
    assert result["test_calibration_error"] < 0.02
    assert result["linear_progressive_auc"] == pytest.approx(0.5, abs=0.1)
    columns, rows = side_by_side(evaluate(pairs).stdout)
    assert rows["test AUC"][columns.index("linear")] == f"{result['linear_test_auc']:.6g}"
    numbers = tmp_path / "numbers.svm"
    numbers.write_text("1 1:1\n2 2:1\n3 3:1\n" * 20)
    result = json.loads(evaluate(numbers, "--json").stdout)
    assert result["progressive_loss"] > 0
    assert result["test_auc"] is result["progressive_calibration_error"] is None


def side_by_side(text: str) -> tuple[list[str], dict[str, list[str]]]:
    """The names of the table's columns, the first aside, and what each of its rows has in them."""
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    (header,) = (at for at, line in enumerate(lines) if "best constant" in line and line[-1] == "best")
    rows = [line for line in lines[header + 2 :] if line[0].startswith(("progressive ", "test "))]
    return lines[header], {name: cells for name, *cells in rows}


def test_linear_stands_beside_apple(pairs: Path, tmp_path: Path) -> None:
    """A column for each predictor with the numbers of the JSON, and who is best by each measure."""
    result = json.loads(evaluate(pairs, "--json").stdout)
    columns, rows = side_by_side(evaluate(pairs).stdout)
    assert columns == ["the mixture", "expanded", "linear", "best constant", "best"]
    for part in ("progressive", "test"):
        names = [f"{prefix}{part}_loss" for prefix in ("", "expanded_", "linear_")]
        assert rows[f"{part} loss"][:3] == [f"{result[name]:.6g}" for name in names]
    assert rows["progressive loss"][3] == f"{result['best_constant_loss']:.6g}"
    assert rows["progressive loss"][-1] in {"the mixture", "expanded"}
    assert rows["test AUC"][-1] == "alike", "mixture and apple rank all of them right"
    columns, rows = side_by_side(evaluate(pairs, "--method", "linear").stdout)
    assert columns == ["linear", "best constant", "best"]
    plain = tmp_path / "line.vw"
    rng = np.random.default_rng(4)
    plain.write_text("".join(f"{a - b:.4f} | a:{a:.4f} b:{b:.4f} c:{c:.4f}\n" for a, b, c in rng.normal(size=(600, 3))))
    columns, rows = side_by_side(evaluate(plain, "--method", "cubic").stdout)
    assert columns == ["cubic", "linear", "best constant", "best"]
    assert rows["progressive loss"][-1] == "linear", "products only disturb it"
    assert "progressive AUC" not in rows


@pytest.mark.parametrize(
    ("method", "of", "verdict"),
    [
        ("apple", (0.11, 0.10, 0.2), "apple is worse than linear: its progressive loss is 10.0% above linear's"),
        ("apple", (0.09, 0.10, 0.2), "apple is better than linear: its progressive loss is 10.0% below linear's"),
        ("apple", (0.1001, 0.1, 0.2), "apple is as good as linear: its progressive loss differs by less than 0.5%"),
        ("linear", (0.1, 0.1, 0.2), "linear is better than the best constant: its progressive loss is 50.0% below "),
        ("apple", (0.1, 0.0, 0.2), "apple is worse than linear, whose loss is 0"),
        ("apple", (0.0, 0.0, 0.2), "apple is as good as linear, whose loss is 0"),
        ("apple", (None, None, None), NO_LABELS),
    ],
)  # fmt: skip
def test_the_verdict(method: str, of: tuple[float | None, float | None, float | None], verdict: str) -> None:
    """A sentence that nobody can overlook: whether the products were worth it."""
    result = Pass(method, 100, *of, None, None, None, None, 10.0, 5, 1.0)
    assert result.verdict() == verdict + ("the best constant's" if verdict.endswith(" ") else "")


@pytest.mark.parametrize(
    ("of", "alone", "verdict"),
    [
        ((0.0964, 0.1, 0.2), 0.105, "better than linear: its progressive loss is 3.6% below linear's; {} 5.0% above"),
        ((0.1001, 0.1, 0.2), 0.09, "as good as linear: its progressive loss differs by less than 0.5%; {} 10.0% below"),
        ((0.0, 0.0, 0.2), 0.1, "as good as linear, whose loss is 0"),
    ],
)
def test_the_verdict_of_a_mixture(of: tuple[float, float, float], alone: float, verdict: str) -> None:
    """It is about what is published, and tells what mixing has changed."""
    said = Pass("apple", 100, *of, None, None, None, None, 10.0, 5, 1.0).verdict(alone)
    assert said == "the mixture is " + verdict.format("the expanded predictor would be")


def test_apple_alone_stands_beside_the_mixture(pairs: Path) -> None:
    """Its losses, AUC and calibration error: those of its own score; null, and not shown, where it is the method."""
    mixture = json.loads(evaluate(pairs, "--json", *AS_THEY_ARE).stdout)
    plain = json.loads(evaluate(pairs, "--json", "--no-mixture").stdout)
    assert 0 < mixture["expanded_progressive_loss"] != mixture["progressive_loss"]
    assert 0 <= mixture["expanded_test_loss"] < mixture["linear_test_loss"]
    assert mixture["expanded_test_auc"] == 1.0 > mixture["expanded_progressive_auc"] > 0.8
    assert {plain[name] for name in KEYS if name.startswith("expanded_")} == {None}
    assert plain["progressive_loss"] > 0
    assert plain["linear_progressive_loss"] == pytest.approx(mixture["linear_progressive_loss"], rel=1e-6)
    assert "expanded" in side_by_side(evaluate(pairs).stdout)[0]
    assert "expanded" not in evaluate(pairs, "--no-mixture").stdout


def test_apples_own_loss_is_that_of_its_scores(pairs: Path) -> None:
    """Weighted mean squares of what apple said, of both parts."""
    limits = Limits(1000, 1 << 20, 1e9, -1e9, 1e9, binary=False)
    run = measured(read_batch([pairs], limits), Options(bits=12), Schedule())
    expected = np.mean((run.scores.expanded - run.trained.labels) ** 2)
    assert run.further["expanded_progressive_loss"] == pytest.approx(expected)
    assert run.losses_of("expanded").mean() == pytest.approx(expected)
    assert run.mixed


def test_the_verdict_is_printed(pairs: Path) -> None:
    """The last line for people; programs have the numbers."""
    said = evaluate(pairs).stdout.splitlines()[-1]
    assert said.startswith("the mixture is better than linear: its progressive loss is ")
    assert "% below linear's; the expanded predictor would be " in said
    assert said.endswith("% below")
    said = evaluate(pairs, "--no-mixture").stdout.splitlines()[-1]
    assert said.startswith("apple is better than linear: its progressive loss is ")
    assert "alone" not in said
    assert "better" not in evaluate(pairs, "--json").stdout


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


def test_tables_are_learned_as_the_lines_that_say_the_same(tmp_path: Path) -> None:
    """CSV, Parquet and JSON lines of the same rows, numbers and categories, give the same losses to the bit."""
    rng = np.random.default_rng(8)
    cities, ages = rng.choice(["Rome", "Oslo", "Ube"], 400).tolist(), rng.normal(size=400).tolist()
    labels = [float(city == "Rome") + age for city, age in zip(cities, ages, strict=True)]
    rows = list(zip(labels, cities, ages, strict=True))
    (tmp_path / "lines").write_text(
        "".join(json.dumps({"label": y, "features": {"city": c, "age": a}}) + "\n" for y, c, a in rows)
    )
    (tmp_path / "csv").write_text("y,city,age,note\n" + "".join(f"{y!r},{c},{a!r},{y!r}\n" for y, c, a in rows))
    table = pa.table({"y": labels, "city": cities, "age": ages, "note": labels})
    parquet.write_table(table, tmp_path / "parquet", row_group_size=150)
    columns = ["--label", "y", "--ignore", "note"]
    found = [
        json.loads(evaluate(tmp_path / name, "--json", *options).stdout)
        for name, options in (("lines", []), ("csv", columns), ("parquet", columns))
    ]
    for result in found:
        del result["seconds"]
    assert found[0] == found[1] == found[2]
    assert found[0]["progressive_loss"] < found[0]["best_constant_loss"] / 2
