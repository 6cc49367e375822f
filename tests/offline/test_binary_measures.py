"""AUC and calibration of whole files: exact, and close to what a worker's histograms say of the same scores."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles.ranking import Predicted, auc, calibration_error
from support.required import SharedFile

from stream_apple.config import load
from stream_apple.core.batch import Limits
from stream_apple.learners.apple.options import LossName, Options
from stream_apple.learners.loss_functions import places_of
from stream_apple.learners.losses import LOGISTIC, SQUARED
from stream_apple.learners.progress.predictor_quality import PredictorQuality
from stream_apple.offline.binary_measures import BinaryMeasures, binary_measures
from stream_apple.offline.dataset import read_batch
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.schedule import Schedule

EXAMPLES = st.lists(
    st.builds(
        Predicted, st.booleans(), st.sampled_from([0.5, 1.0, 4.0]), st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1)
    ),
    max_size=30,
)


@given(EXAMPLES, st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (1.0, 2.0)]))
def test_they_are_by_definition(examples: list[Predicted], pair: tuple[float, float]) -> None:
    """Pair by pair and bin by bin; rows without a label, or of weight 0, are none."""
    labels = np.array([*(pair[e.positive] for e in examples), math.nan, pair[1]])
    weights = np.array([*(e.weight for e in examples), 1.0, 0.0])
    places = np.array([*(e.place for e in examples), 0.1, 0.1])
    found = binary_measures(labels, weights, places, pair[1])
    if len({e.positive for e in examples}) == 2:
        assert found.auc == pytest.approx(auc(examples), abs=1e-12)
    else:
        assert found.auc is None
    if examples:
        assert found.calibration_error == pytest.approx(calibration_error(examples), abs=1e-12)
    else:
        assert found == BinaryMeasures(None, None)


def test_places_are_probabilities() -> None:
    """Of log-odds, far from 0 too; and of scores within, and beyond, the pair of labels."""
    odds = places_of(LOGISTIC, np.array([-50.0, -math.log(3), 0.0, 50.0]), np.array([-1.0, 1.0]))
    assert odds == pytest.approx([math.exp(-50), 0.25, 0.5, 1.0], rel=1e-12)
    between = places_of(SQUARED, np.array([0.0, 1.0, 1.25, 2.0, 3.0]), np.array([1.0, 2.0]))
    assert between.tolist() == [0.0, 0.0, 0.25, 1.0, 1.0]


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("letter", "squared"),
        ("magic04", "logistic"),
        *(pytest.param("a9a", loss, marks=pytest.mark.long) for loss in ("squared", "logistic")),
        *(pytest.param("shuttle", loss, marks=pytest.mark.long) for loss in ("squared", "logistic")),
        pytest.param("letter", "logistic", marks=pytest.mark.long),
        pytest.param("magic04", "squared", marks=pytest.mark.long),
    ],
)
def test_a_workers_histograms_say_the_same_of_real_sets(name: str, loss: LossName, shared: SharedFile) -> None:
    """To a thousandth: that many bins there are for."""
    limits = load(None, {}).limits
    bounds = Limits(limits.max_features_per_example - 1, 1 << 30, limits.max_weight, -1e9, 1e9, loss == "logistic")
    batch = read_batch([shared(f"data/{name}.svm.gz")], bounds)
    run = evaluate(batch, Options(loss=loss, bits=16), Schedule())
    quality = PredictorQuality(loss=run.loss, predictors=2)
    call, arguments = quality.kernel_call(run.trained, run.scores, 0, len(run.trained.labels))
    call(*arguments)
    for which, prefix in enumerate(("", "linear_")):
        found = quality.report("whole", which)
        auc, calibration_error = (run.further[f"{prefix}progressive_{name}"] for name in ("auc", "calibration_error"))
        assert auc is not None
        assert 0.5 < auc == pytest.approx(found.auc, abs=1e-3)
        assert found.calibration_error == pytest.approx(calibration_error, abs=1e-3)
