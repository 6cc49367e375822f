"""One example at a time gives the bits of a batch, in each family of learners."""

from typing import Any

import numpy as np
import pytest
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.errors import ModelError
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores

ROWS, WIDTH = 300, 4


def _examples(loss: str) -> Batch:
    draw = np.random.default_rng(7)
    keys = draw.integers(1, 9, ROWS * WIDTH).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    values = draw.normal(size=ROWS * WIDTH).astype(np.float32)
    labels = {"squared": draw.normal(size=ROWS), "logistic": draw.choice([-1.0, 1.0], ROWS)}.get(
        loss, draw.integers(0, 3, ROWS).astype(float)
    )
    labels[::17] = np.nan
    weights = draw.choice([0.0, 0.5, 1.0, 3.0], ROWS)
    return Batch(np.arange(0, ROWS * WIDTH + 1, WIDTH), keys, values, labels, weights)


def _one_by_one(options: Options, batch: Batch) -> int:
    """Compare rows alone with rows of a batch, over ends of epochs; return how many rows needed no batch."""
    whole, single, expected = Learner(options), Learner(options), Scores.empty(ROWS)
    found, row, alone = [], None, 0
    for at in range(ROWS):
        if at and at % 100 == 0:
            whole.end_epoch()
            single.end_epoch()
        asked = whole.predict(batch.select(np.array([at])))
        whole.learn(batch, at, at + 1, expected)
        start, stop = batch.indptr[at : at + 2].tolist()
        if row is None or row.generation != single.generation:
            row = single.single_row(WIDTH + at)
        if row is None:
            scores = Scores.empty(ROWS)
            single.learn(batch, at, at + 1, scores)
            found.append(scores.predictions[at])
            continue
        alone += 1
        size = stop - start
        row.keys[:size], row.values[:size], row.indptr[1] = batch.keys[start:stop], batch.values[start:stop], size
        row.label[0], row.weight[0] = batch.labels[at], batch.weights[at]
        row.score()
        assert row.predictions[0] == asked[0]
        row.learn()
        found.append(row.predictions[0])
    assert found == expected.predictions.tolist()
    assert single.digest() == whole.digest()
    assert (single.restarts, single.census().parents.tolist()) == (whole.restarts, whole.census().parents.tolist())
    observed = single.observed
    assert all(np.array_equal(array, observed[name], equal_nan=True) for name, array in whole.observed.items())
    return alone


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"loss": "softmax", "classes": 3},
        {"mixture": False, "selection": "ssm"},
        {"method": "quadratic", "discretise": "spline"},
    ],
    ids=str,
)
def test_the_bits_are_those_of_a_batch(chosen: dict[str, Any]) -> None:
    """Scores, digest and what is counted, over ends of epochs and rows that only a larger scratch holds."""
    options = bare(bits=8, **chosen)
    alone = _one_by_one(options, _examples(options.loss))
    settled = options.discretise == "none" and not (options.mixed and options.loss == "squared")
    assert alone == ROWS if settled else 0 < alone < ROWS  # before numbers and labels have their units, in batches


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_so_are_those_of_what_a_learner_does_by_itself(loss: str) -> None:
    """When numbers are cut and units of labels are known, no batch is needed: growth and restarts come as in one.

    Labels turn over in the middle, features are absent or 1, and some labels are far from 0.
    """
    options = Options(bits=8, loss=loss, classes=3 if loss == "softmax" else 0)  # type: ignore[arg-type]
    batch, draw = _examples(loss), np.random.default_rng(3)
    first = batch.values[::WIDTH]
    if loss == "squared":
        batch.labels[:] = 1e5 + 300 * first + np.where(np.arange(ROWS) < 220, 0, 9_000)
    elif loss == "logistic":
        batch.labels[:] = np.sign(first) * np.where(np.arange(ROWS) < 220, 1, -1)
    batch.labels[::17] = np.nan
    batch.values[draw.random(len(batch.values)) < 0.2] = 1.0
    kept = np.sort(draw.choice(len(batch.keys), len(batch.keys) - 100, replace=False))
    rows = np.searchsorted(kept, batch.indptr)
    alone = _one_by_one(options, batch._replace(indptr=rows, keys=batch.keys[kept], values=batch.values[kept]))
    assert ROWS / 2 < alone < ROWS


def test_n_grams_need_a_batch() -> None:
    """Such a learner has no place for one example."""
    assert Learner(bare(bits=8, ngrams={"*": 2})).single_row(3) is None


def test_a_score_that_is_not_finite_is_refused() -> None:
    """As in a batch."""
    learner = Learner(Options(bits=8, method="linear"))
    row = learner.single_row(1)
    assert row is not None
    row.keys[0], row.values[0], row.indptr[1], row.label[0] = 5, 1.0, 1, 1.0
    row.learn()
    learner.table.slots["weight"][:] = np.inf
    with pytest.raises(ModelError, match="expected a finite score"):
        row.score()
