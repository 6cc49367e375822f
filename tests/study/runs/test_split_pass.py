"""A pass of a learner through the port: its figures are those of `evaluate` for the product."""

import numpy as np
import pytest
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.tuples.learner import TupleLearner
from stream_apple.learners.tuples.options import TupleOptions
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.schedule import Schedule
from study.runs.split_pass import pass_over_split, passes_over_splits, predictions_after, scores_of


def pairs(rows: int) -> Batch:
    """Two binary attributes and a third; the label is whether the first two are equal."""
    values = np.random.default_rng(2).integers(0, 2, (rows, 3))
    attributes = np.arange(1, 4, dtype=np.uint64)
    keys = (values.astype(np.uint64) * np.uint64(8) + attributes) * np.uint64(0x9E3779B97F4A7C15)
    labels = np.where(values[:, 0] == values[:, 1], 1.0, -1.0)
    ends = np.arange(rows + 1) * 3
    return Batch(
        ends, keys.ravel(), np.ones(3 * rows, np.float32), labels, np.ones(rows), attributes=np.tile(attributes, rows)
    )


BATCH = pairs(2_000)


def test_figures_are_those_of_evaluate() -> None:
    """Losses, errors, and features, on the same split with the same epochs."""
    options, schedule = bare(bits=12, loss="logistic"), Schedule(epochs=4, seed=3)
    learner, figures = pass_over_split(lambda: Learner(options), BATCH, schedule)
    result = evaluate(BATCH, options, schedule).result
    for name in ("progressive_loss", "progressive_error", "test_loss", "test_error", "features_per_example"):
        assert getattr(figures, name) == pytest.approx(getattr(result, name), rel=1e-12)
    assert learner.examples == 1_600


def test_any_learner_is_measured() -> None:
    """One for each split; scoring changes nothing."""
    found = list(passes_over_splits(lambda: TupleLearner(TupleOptions(bits=10)), BATCH, 2))
    assert [figures.test_error for _, figures in found] == [0.0, 0.0]
    (learner, _), *_ = found
    before = learner.digest()
    assert not np.isnan(scores_of(learner, BATCH).predictions).any()
    assert learner.digest() == before


def test_predictions_are_of_what_was_not_learned() -> None:
    """They are right after one part."""
    trained, tested = BATCH.select(np.arange(1_500)), BATCH.select(np.arange(1_500, 2_000))
    predictions = predictions_after(TupleLearner(TupleOptions(bits=10)), trained, tested)
    assert ((predictions > 0) == (tested.labels > 0)).all()
