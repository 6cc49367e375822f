"""The picky baselines find what was planted, refuse what is of no use, and are run by the study like other methods."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
from support.monomial_batches import batch_of, key_of

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.options import LossName, Options
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.schedule import Schedule
from study.methods import METHODS, Proposal
from study.runs.learning import learn
from study.runs.picky import PickyRun, evaluate_picky
from study.tasks import Task

PROPOSALS: tuple[Proposal, ...] = get_args(Proposal)
LINEAR = Options(method="linear", bits=12)
SIZE = 8


def stream(seed: int, *, planted: bool, loss: LossName = "squared", rows: int = 6000) -> Batch:
    """Eight numbers, whose label is linear in all but for noise and, if it is planted, x1 x2 and x1 x2 x3."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, SIZE)).astype(np.float32).astype(float)
    score = 0.5 * x[:, 0] - 0.4 * x[:, 1] + 0.3 * x[:, 2]
    if planted:
        score += x[:, 0] * x[:, 1] + 0.7 * x[:, 0] * x[:, 1] * x[:, 2]
    score += 0.3 * rng.normal(size=rows)
    labels = np.where(score > 0, 1.0, -1.0) if loss == "logistic" else score
    return batch_of([dict(enumerate(map(float, row), 1)) for row in x])._replace(labels=labels)


def monomials_of(run: PickyRun) -> list[tuple[int, ...]]:
    """The numbers of the features of each product that was admitted, in this order."""
    names: dict[int, tuple[int, ...]] = {key_of(number): (number,) for number in range(1, SIZE + 1)}
    for key, (parent, factor) in run.products.items():
        names[key] = tuple(sorted(names[parent] + names[factor]))
    return [names[key] for key in run.products]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_what_is_planted_is_found(proposal: Proposal, loss: LossName) -> None:
    """First the pair, then the product of the pair and the third; the error falls to a part of linear's."""
    batch, options = stream(1, planted=True, loss=loss), dataclasses.replace(LINEAR, loss=loss)
    run = evaluate_picky(batch, options, Schedule(), proposal)
    found = monomials_of(run)
    assert found[0] == (1, 2)
    assert (1, 2, 3) in found
    assert len(found) < 20
    linear = evaluate(batch, options, Schedule())
    assert (run.run.result.test_loss or 9) < 0.7 * (linear.result.test_loss or 0)


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_what_is_of_no_use_is_refused(proposal: Proposal) -> None:
    """Of a linear label: all pairs are tested, none is admitted, and what is learned is what linear learns."""
    batch = stream(2, planted=False)
    run, linear = evaluate_picky(batch, LINEAR, Schedule(), proposal), evaluate(batch, LINEAR, Schedule())
    assert run.products == {}
    assert run.parents == SIZE
    # Each pair and square of 8 is tested in one of five half epochs.
    assert run.tested == pytest.approx(36 / 12, rel=0.05)
    assert run.run.result.progressive_loss == pytest.approx(linear.result.progressive_loss, rel=1e-6)
    assert run.run.result.test_loss == pytest.approx(linear.result.test_loss, rel=1e-6)
    assert run.run.result.features_per_example == linear.result.features_per_example == SIZE + 1


def test_alpha_is_how_many_are_proposed() -> None:
    """With 8^.3, which is 1 and a bit, it is one an epoch, whose products alone are tested; two find the pair."""
    one, two = (dataclasses.replace(LINEAR, alpha=alpha) for alpha in (0.3, 0.5))
    run = evaluate_picky(stream(2, planted=False), one, Schedule(), "weight")
    assert run.parents == 5
    assert run.tested == pytest.approx(5 * SIZE / 12, rel=0.05)
    found = evaluate_picky(stream(1, planted=True), two, Schedule(), "weight")
    assert monomials_of(found)[0] == (1, 2)


def test_the_two_propose_differently() -> None:
    """By weight, what is large in the label; by ssm, where residuals are large: of a lone square, its feature."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(6000, SIZE)).astype(np.float32).astype(float)
    labels = 2 * x[:, 0] + x[:, 4] ** 2
    batch = batch_of([dict(enumerate(map(float, row), 1)) for row in x])._replace(labels=labels)
    options = dataclasses.replace(LINEAR, alpha=0.1)  # one an epoch
    first = {proposal: evaluate_picky(batch, options, Schedule(epochs=2), proposal).products for proposal in PROPOSALS}
    assert len(first["ssm"]) == 1
    assert next(iter(first["ssm"].values())).parent == next(iter(first["ssm"].values())).factor
    assert first["weight"] == {}


@pytest.mark.parametrize("rows", [1, 5, 13])
def test_epochs_of_hardly_an_example(rows: int) -> None:
    """Neither fail nor admit."""
    run = evaluate_picky(stream(3, planted=True, rows=rows), LINEAR, Schedule(), "ssm")
    assert run.products == {}
    assert run.run.result.examples == rows


def test_the_study_runs_them() -> None:
    """What they test is told; no linear predictor learns alongside."""
    batch = stream(1, planted=True)
    names = [name for name, method in METHODS.items() if method.proposal]
    assert names == ["picky-ssm", "picky-weight"]
    for name in names:
        measures = learn(Task("error", "planted", name, 1.0, 0.5, 0, 6, 12, "squared"), batch)
        assert measures.failure is None
        assert (measures.tested_per_example or 0) > 3
        assert measures.linear_progressive_loss is None
        assert {end.linear_loss for end in measures.ends} == {None}
        assert len(measures.ends) == 6
