"""Vowpal Wabbit learns what we learn: same examples, order, rate, epochs and test."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tiny_sets import write_tiny_sets

from stream_apple.core.batch import Batch
from study.data_sets import find_data_sets
from study.methods import STAGE_POLY_CHOICES
from study.preparation import load_arrays, prepare
from study.runs import vowpal
from study.runs.learning import learn
from study.runs.vowpal import learn_with_vowpal
from study.tasks import Measures, Task

pytest.importorskip("vowpalwabbit")


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, Batch]:
    """The tiny ones."""
    found = find_data_sets(write_tiny_sets(tmp_path / "sets")).sets
    return {each.name: load_arrays(prepare(each, 1000, "squared", tmp_path).arrays) for each in found}


def both(task: Task, batch: Batch, folder: Path) -> tuple[Measures, Measures]:
    """The run of ours and that of Vowpal Wabbit."""
    theirs = task._replace(method=f"vw-{task.method}")
    return learn(task, batch), learn_with_vowpal(theirs, batch, folder)


@pytest.mark.parametrize("method", ["linear", "quadratic", "cubic"])
def test_baselines_are_the_same(method: str, sets: dict[str, Batch], tmp_path: Path) -> None:
    """Errors, losses at each epoch's end, and features, on the class and on the regression."""
    for name, batch in sets.items():
        ours, theirs = both(Task("error", name, method, None, 0.5, 1, 3, 18, "squared"), batch, tmp_path / "text")
        assert theirs.failure is None
        assert theirs.progressive_loss == pytest.approx(ours.progressive_loss, rel=1e-3)
        assert theirs.test_loss == pytest.approx(ours.test_loss, rel=1e-3)
        assert theirs.test_error == ours.test_error
        assert (theirs.progressive_error is None) == (ours.progressive_error is None) == (name == "slope")
        assert (theirs.progressive_error or 0) == pytest.approx(ours.progressive_error or 0, abs=0.011)
        assert theirs.features_per_example == pytest.approx(ours.features_per_example, abs=0.02)
        assert [end.examples for end in theirs.ends] == [end.examples for end in ours.ends]
        assert [end.loss for end in theirs.ends] == pytest.approx([end.loss for end in ours.ends], rel=1e-3)


def test_the_logistic_loss_is_the_same(tmp_path: Path) -> None:
    """Labels -1 and 1, and a test by log-odds."""
    data_set = find_data_sets(write_tiny_sets(tmp_path / "sets")).sets[0]
    batch = load_arrays(prepare(data_set, 1000, "logistic", tmp_path).arrays)
    ours, theirs = both(Task("error", "pairs", "quadratic", None, 0.5, 0, 0, 18, "logistic"), batch, tmp_path)
    assert theirs.progressive_loss == pytest.approx(ours.progressive_loss, rel=1e-2)
    assert theirs.test_loss == pytest.approx(ours.test_loss, rel=5e-2)
    assert theirs.test_error == ours.test_error


def test_stage_poly_grows_at_the_same_epochs(sets: dict[str, Batch], tmp_path: Path) -> None:
    """Linear for the first epoch, and better than linear when it has found the product."""
    batch = sets["pairs"]
    task = Task("error", "pairs", "vw-stage-poly", None, 0.5, 0, 6, 18, "squared")
    grown = learn_with_vowpal(task, batch, tmp_path)
    linear = learn_with_vowpal(task._replace(method="vw-linear"), batch, tmp_path)
    assert grown.ends[0].loss == pytest.approx(linear.progressive_loss, rel=0.2)
    assert (grown.features_per_example or 0) > 1.5 * (linear.features_per_example or 0)
    assert (grown.test_error or 0) < (linear.test_error or 0)


def test_vowpal_s_own_schedule_is_not_ours(tmp_path: Path) -> None:
    """By default it grows after 1,000 examples, or after `--batch_sz`, however many epochs ours are."""
    data_set = find_data_sets(write_tiny_sets(tmp_path / "sets", 1600)).sets[0]
    batch = load_arrays(prepare(data_set, 1600, "squared", tmp_path).arrays)
    task = Task("error", "pairs", "vw-linear", None, 0.5, 0, 0, 18, "squared")
    features = {
        name: learn_with_vowpal(task._replace(method=name), batch, tmp_path).features_per_example or 0
        for name in ("vw-linear", *STAGE_POLY_CHOICES[1:])
    }
    linear = features["vw-linear"]
    # 280 of 1,280 examples are learned with products, or 1,180, some with more of them.
    assert linear < features["vw-stage-poly-few"] < features["vw-stage-poly-default"] < 2 * linear
    assert features["vw-stage-poly-often"] == features["vw-stage-poly-default"]
    assert features["vw-stage-poly-early"] > 2 * linear


def test_seconds_are_measured(sets: dict[str, Batch], tmp_path: Path) -> None:
    """With nothing else: predictions are not written then."""
    task = Task("timing", "pairs", "vw-stage-poly", None, 0.5, 0, 6, 18, "squared")
    measures = learn_with_vowpal(task, sets["pairs"], tmp_path)
    assert measures == Measures(seconds=measures.seconds)
    assert 0 < (measures.seconds or 0) < 10


def test_seconds_without_learning_are_a_failure(
    sets: dict[str, Batch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that reads nothing is fast, and no result."""
    monkeypatch.setattr(vowpal, "run_vowpal", lambda _: {"seconds": 0.001, "loss": None, "features": 0.0})
    task = Task("timing", "pairs", "vw-linear", None, 0.5, 0, 0, 18, "squared")
    measures = learn_with_vowpal(task, sets["pairs"], tmp_path)
    assert measures.seconds is None
    assert "learned nothing" in (measures.failure or "")


@pytest.mark.parametrize(("method", "features"), [("linear", 16), ("cubic", 816)])
def test_the_pass_that_is_timed_is_the_one_that_was_meant(
    method: str, features: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the method's features: 15 and the constant, or their 120 squares and pairs and 680 triples besides."""
    rows, size = 50, 15
    batch = Batch(
        np.arange(rows + 1) * size,
        np.tile(np.arange(1, size + 1, dtype=np.uint64), rows),
        np.random.default_rng(1).normal(size=rows * size).astype(np.float32),
        (np.arange(rows) % 2).astype(np.float64),
        np.ones(rows),
    )
    passes: list[dict[str, Any]] = []
    run_vowpal = vowpal.run_vowpal

    def run(arguments: Sequence[str]) -> dict[str, Any]:
        passes.append(run_vowpal(arguments))
        return passes[-1]

    monkeypatch.setattr(vowpal, "run_vowpal", run)
    monkeypatch.setattr(vowpal, "REPEATS", 1)
    measures = learn_with_vowpal(
        Task("timing", "wide", f"vw-{method}", None, 0.5, 0, 0, 18, "squared"), batch, tmp_path
    )
    learned = int(passes[-1]["features"]) / rows
    assert learned == features
    assert measures.seconds == passes[-1]["seconds"]


def test_a_failure_is_told(sets: dict[str, Batch], tmp_path: Path) -> None:
    """A run that Vowpal Wabbit refuses has no result, and says why."""
    task = Task("error", "pairs", "vw-linear", None, 0.5, 0, 0, 18, "squared")._replace(loss="hinged")  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Task, "options", lambda _: None)
        measures = learn_with_vowpal(task, sets["pairs"], tmp_path)
    assert measures.failure is not None
    assert measures.failure.startswith("Vowpal Wabbit ended with ")
    assert measures.test_error is None
