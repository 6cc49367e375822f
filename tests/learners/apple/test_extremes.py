"""Whatever a record may hold is learned, and leaves a model whose every number is finite: a search for one that is not.

What may be in a record is what the decoder lets pass: values below 2^60 in size down to the smallest of 32 bits, labels
and importance weights up to the largest that can be configured, and down to the smallest of 64 bits.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from learners.apple.test_learner import Row, batch_of

from stream_apple.core.batch import TOO_LARGE
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import COMPANION, MOST_WEIGHT
from stream_apple.learners.scores import Scores
from stream_apple.learners.state import check_finite

LARGEST = float(np.nextafter(TOO_LARGE, np.float32(0)))
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)
VALUES = st.sampled_from(
    [
        sign * size
        for size in (1.0, 3.7, LARGEST, 1e17, 1e10, 4200.0, 1e-4, 1e-10, 1e-19, 1e-20, 1e-37, 1e-38, 1e-42, SMALLEST)
        for sign in (1.0, -1.0)
    ]
)
LABELS = st.sampled_from([0.0, 1.0, -1.0, 3.5, 1e18, -1e18, 1e9, 1e-3, 1e-20, 1e-90, -1e-110, 1e-160, 1e-200, 5e-324])
WEIGHTS = st.sampled_from([1.0, 2.0, 1e12, 1e6, 1e-3, 1e-30, 1e-100, 1e-200, 1e-308, 5e-324])
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
ROWS = st.lists(st.tuples(st.dictionaries(NAMES, VALUES, max_size=4), LABELS, WEIGHTS), min_size=1, max_size=40)


def _options(draw: st.DrawFn) -> Options:
    method = draw(st.sampled_from(["apple", "apple", "apple", "linear", "quadratic", "cubic"]))
    chosen: dict[str, Any] = {
        "method": method,
        "loss": draw(st.sampled_from(["squared", "logistic"])),
        "bits": 8,
        "learning_rate": draw(st.sampled_from([1e-30, 1e-3, 0.5, 10.0, 1000.0])),
        "max_features_per_example": draw(st.sampled_from([2, 8, 65_536])),
    }
    if method == "apple":
        chosen["mixture"] = draw(st.sampled_from([True, False]))
        if not chosen["mixture"]:
            chosen["alpha"] = draw(st.sampled_from([0.125, 1.0, 2.0]))
            chosen["selection"] = draw(st.sampled_from(["weight", "ssm"]))
            if chosen["loss"] == "logistic":
                plain = [{"steps": "theorem1", "theorem1_lambda": l2} for l2 in (1e-300, 1e-6, 1000.0)]
                chosen |= draw(st.sampled_from([{}, *plain]))
    chosen["discretise"] = draw(st.sampled_from(["none", "spline"]))
    chosen["ngrams"] = draw(st.sampled_from([{}, {}, {"*": 2}, {"": 3}]))
    return Options(**chosen)


OPTIONS = st.composite(_options)()


def check(learner: Learner) -> None:
    """Every number of the model is finite, and weights are within their bounds."""
    table = learner.table
    check_finite(table._asdict())
    taken = table.slots[(table.slots["key"] != 0) | (table.slots["degree"] == 0)]
    for field in ("weight", "gradient", "scale", "average", "fast"):
        assert np.isfinite(taken[field]).all(), field
    assert (np.abs(taken["weight"]) <= MOST_WEIGHT).all()
    assert (taken["gradient"] >= 0).all()
    for field in COMPANION.names or ():
        assert np.isfinite(table.companions[field]).all(), field
    for field in ("residuals", "squares"):
        assert np.isfinite(table.residuals[field]).all(), field
    for name, array in learner.sums.items():
        assert np.isfinite(array).all(), name


@pytest.mark.parametrize("examples", [100, pytest.param(400, marks=pytest.mark.long)])
def test_no_stream_is_the_end_of_a_model(examples: int) -> None:
    """All options, few names and many extremes, so that they meet: scores and every bit of state stay numbers."""

    @settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(options=OPTIONS, epochs=st.lists(ROWS, min_size=1, max_size=5), repeat=st.sampled_from([1, 1, 60]))
    def all_are_numbers(
        options: Options, epochs: list[list[tuple[dict[str, float], float, float]]], repeat: int
    ) -> None:
        learner = Learner(options)
        for drawn in epochs:
            rows = [
                Row(features, label if options.loss == "squared" else float(np.sign(label) or -1.0), weight)
                for features, label, weight in drawn
            ] * repeat
            batch, scores = batch_of(rows), Scores.empty(len(rows))
            batch = batch._replace(spaces=np.zeros(len(batch.keys), np.uint64))
            learner.learn(batch, 0, len(rows), scores)
            assert np.isfinite(scores.predictions).all()
            assert np.isfinite(scores.losses).all()
            check(learner)
            learner.end_epoch()
            check(learner)

    all_are_numbers()


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("mixture", [True, False])
def test_the_records_that_ended_workers(loss: Any, mixture: bool) -> None:  # noqa: FBT001
    """A value next to zero and then a large one; a label next to zero; a weight next to zero and a large score."""
    for values in ((1e-10, 1e17), (1e-38, 1e17), (SMALLEST, LARGEST), (LARGEST, SMALLEST)):
        for labels in ((1.0, -1.0), (1e-200, 1.0)):
            options = Options(loss=loss, bits=8, mixture=mixture)
            learner = Learner(options)
            rows = [
                Row({"a": value, "b": 1.0}, label if loss == "squared" else float(np.sign(label)), weight)
                for weight in (5e-324, 1.0)
                for label in labels
                for value in values
            ] * 20
            scores = Scores.empty(len(rows))
            for _ in range(3):
                learner.learn(batch_of(rows), 0, len(rows), scores)
                assert np.isfinite(scores.predictions).all()
                learner.end_epoch()
                check(learner)
