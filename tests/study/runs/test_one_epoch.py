"""A learner of any system, after one epoch."""

import numpy as np
import pytest
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.systems import new_learner
from stream_apple.learners.tuples.options import TupleOptions
from study.runs.one_epoch import learn_once, predictions_of


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


@pytest.mark.parametrize("options", [bare(bits=12, loss="logistic", method="quadratic"), TupleOptions(bits=10)])
def test_predictions_are_right_for_what_was_not_learned(options: LearnerOptions) -> None:
    """After one epoch of a part; predicting changes nothing."""
    trained, tested = BATCH.select(np.arange(1_500)), BATCH.select(np.arange(1_500, 2_000))
    learner = new_learner(options)
    learn_once(learner, trained)
    before = learner.digest()
    assert learner.examples == 1_500
    assert ((predictions_of(learner, tested) > 0) == (tested.labels > 0)).all()
    assert learner.digest() == before
