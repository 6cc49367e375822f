"""One example at a time gives the bits of a batch, in each family of learners."""

from typing import Any

import numpy as np
import pytest
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.core.learner.learner import Learner, Scores
from stream_apple.core.learner.options import Options
from stream_apple.errors import ModelError

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


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"loss": "logistic", "warm_start": "naive_bayes"},
        {"loss": "softmax", "classes": 3},
        {"method": "linear", "collisions": "share"},
        {"combine": "off", "selection": "ssm"},
        {"l1": 0.001},
    ],
    ids=str,
)
def test_the_bits_are_those_of_a_batch(chosen: dict[str, Any]) -> None:
    """Scores, digest and what is counted, over ends of epochs and rows that only a larger scratch holds."""
    options = bare(bits=8, **chosen)
    batch = _examples(options.loss)
    whole, single, expected = Learner(options), Learner(options), Scores.empty(ROWS)
    found, row = [], None
    for at in range(ROWS):
        if at and at % 100 == 0:
            whole.end_epoch()
            single.end_epoch()
        whole.learn(batch, at, at + 1, expected)
        if row is None or row.generation != single.generation:
            row = single.single_row(WIDTH + at)
        assert row is not None
        features = slice(at * WIDTH, (at + 1) * WIDTH)
        row.keys[:WIDTH], row.values[:WIDTH], row.indptr[1] = batch.keys[features], batch.values[features], WIDTH
        row.label[0], row.weight[0] = batch.labels[at], batch.weights[at]
        row.score()
        row.learn()
        found.append(row.predictions[0])
    assert found == expected.predictions.tolist()
    assert single.digest() == whole.digest()
    observed = single.observed
    assert all(np.array_equal(array, observed[name], equal_nan=True) for name, array in whole.observed.items())


@pytest.mark.parametrize("chosen", [{"discretise": "auto"}, {"method": "tuples"}], ids=str)
def test_what_is_prepared_needs_a_batch(chosen: dict[str, Any]) -> None:
    """Such a learner has no place for one example."""
    assert Learner(bare(bits=8, **chosen)).single_row(3) is None


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
