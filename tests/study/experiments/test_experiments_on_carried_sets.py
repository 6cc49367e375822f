"""Defaults and forest, on two sets and with one variant."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from stream_apple.core.batch import Batch
from study.carried_sets import CarriedSet, flipped
from study.experiments import defaults, forest
from study.experiments.experiment import Inquiry, StudyFinding
from study.runs import carried_pass
from study.runs.carried_pass import CarriedFigures, pass_over_carried

pytest.importorskip("river")
pytest.importorskip("sklearn")
VARIANTS = defaults.VARIANTS  # which a fixture replaces


def made_up(rows: int, loss: str) -> CarriedSet:
    """One of three features says what the label is."""
    rng = np.random.default_rng(4)
    chosen = rng.integers(0, 3, rows)
    labels = {"softmax": chosen, "logistic": np.where(chosen == 1, 1, -1), "squared": 10 * chosen}[loss]
    batch = Batch(
        np.arange(rows + 1), 1 + chosen.astype(np.uint64), np.ones(rows, np.float32), labels * 1.0, np.ones(rows)
    )
    return CarriedSet(loss, 3 if loss == "softmax" else 0, batch)  # type: ignore[arg-type]


def sets(count: int) -> Iterator[tuple[str, CarriedSet]]:
    """One of each loss."""
    for loss in ("softmax", "logistic", "squared"):
        yield loss, made_up(count, loss)


def as_by_default(
    given: Mapping[str, CarriedSet], changes: Mapping[str, object]
) -> Iterator[tuple[str, CarriedFigures]]:
    """Instead of a process with kernels of its own."""
    assert changes == {"learners.scores:CYCLE": 7}
    yield from ((name, pass_over_carried(each, {})) for name, each in given.items())


@pytest.fixture
def inquiry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inquiry:
    """Of 300 examples of the made-up sets."""
    for module in (defaults, forest):
        monkeypatch.setattr(module, "carried_sets", sets)
    monkeypatch.setattr(defaults, "held_out_sets", sets)
    monkeypatch.setattr(defaults, "VARIANTS", {"a small rate": {"learning_rate": 0.001}})
    monkeypatch.setattr(defaults, "PARTS", {"nothing": {"learners.scores:CYCLE": 7}})
    monkeypatch.setattr(defaults, "passes_with_constants", as_by_default)
    monkeypatch.setattr(defaults, "BEFORE", 100)
    monkeypatch.setattr(carried_pass, "BEFORE", 100)
    monkeypatch.setattr(carried_pass, "WINDOW", 25)
    monkeypatch.setattr(forest, "TREES", 1)
    return Inquiry({}, tmp_path, 1, 300)


def found_of(experiment: Iterator[StudyFinding]) -> dict[str, StudyFinding]:
    """The findings by name, each of whose rows is as long as its head."""
    findings = {finding.name: finding for finding in experiment}
    for finding in findings.values():
        assert {len(row) for row in finding.rows} == {len(finding.columns)}
    return findings


def test_variants_are_compared_with_the_default(inquiry: Inquiry) -> None:
    """On the sets of the choice, on held-out ones, and on two labels with the squared loss; and flips on the rest."""
    found = found_of(defaults.EXPERIMENT.run(inquiry))
    assert [row[0] for row in found["chosen-sets"].rows] == ["softmax", "logistic", "squared"]
    assert [row[0] for row in found["squared-sets"].rows] == ["logistic"]
    for name in ("chosen-variants", "held-out-variants", "squared-variants"):
        (variant, _, loss, *_), (part, *ratios) = found[name].rows
        assert (variant, part) == ("a small rate", "nothing")
        assert ratios[:5] == [1.0] * 5
        assert isinstance(loss, float)
        assert loss > 1.05
    assert [row[0] for row in found["flips"].rows] == ["softmax", "logistic"]


def test_the_forest_is_learned_beside_the_default(inquiry: Inquiry) -> None:
    """Errors and speeds of each set, and their means."""
    rows = found_of(forest.EXPERIMENT.run(inquiry))["forest"].rows
    assert [row[0] for row in rows] == [
        "softmax", "logistic", "squared", "geometric mean", "error at most the forest's",
    ]  # fmt: skip
    assert all(isinstance(row[1], float) and row[1] < 10.0 for row in rows[:3])


def test_what_is_absent_is_zero_to_the_forest() -> None:
    """Each example has all features."""
    (first, *_) = forest.rows_of(made_up(20, "squared"))
    assert sorted(first.values()) == [0.0, 0.0, 1.0]


def test_a_pass_says_when_a_flip_is_overcome() -> None:
    """Infinitely late if labels mean nothing any more."""
    given = made_up(4000, "logistic")
    assert np.isnan(pass_over_carried(given, {}).back)
    assert 250 <= pass_over_carried(flipped(given), {}).back < 700
    labels = given.batch.labels.copy()
    labels[2000:] = np.random.default_rng(1).choice([-1.0, 1.0], 2000)
    random = given._replace(batch=given.batch._replace(labels=labels), flip=2000)
    assert pass_over_carried(random, {}).back == np.inf


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_can_be_learned(inquiry: Inquiry, variant: str, loss: str) -> None:
    """Its settings exist, and go with each loss."""
    assert defaults._pass_over_all(inquiry, variant, {"set": made_up(20, loss)}, VARIANTS[variant]).keys() == {"set"}


def test_every_part_has_its_constants() -> None:
    """Each is in its module, and has another value."""
    for constants in defaults.PARTS.values():
        for place, value in constants.items():
            module, _, name = place.partition(":")
            assert getattr(import_module(f"stream_apple.{module}"), name) != value
