"""The stack of classes: what it makes of its predictors' scores, and that a mixture is the better for it."""

import numpy as np
import pytest
from numpy.typing import NDArray
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.learners.apple.kernels.mixture import KEEP
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.multiclass.class_stack import CLASS_RIDGE, learn_class_stack, stack_classes
from stream_apple.learners.apple.multiclass.process import empty_class_mixture
from stream_apple.learners.apple.state.classes import (
    CLASS_AVERAGE,
    CLASS_EXPANDED,
    CLASS_LINEAR,
    CLASS_STACK,
    ClassWork,
    empty_class_work,
)
from stream_apple.learners.apple.state.model import Mixture
from stream_apple.learners.apple.state.weights import APPLE, AVERAGE, LINEAR
from stream_apple.learners.apple.state.work import Mixing, empty_mixing
from stream_apple.learners.loss_functions import softmax
from stream_apple.learners.scores import Scores

Numbers = NDArray[np.float64]


@kernel
def _stack(
    mixture: Mixture, class_work: ClassWork, mixing: Mixing, scores: Numbers, label: int, importance: float
) -> None:
    """Score and learn an example of which the predictors' scores are float64[3, classes]."""
    classes, stride = scores.shape[1], len(class_work.rivals)
    for which in range(3):
        for c in range(classes):
            class_work.scores[which * stride + c] = scores[which, c]
        softmax(class_work.scores, class_work.probabilities, which * stride, which * stride + classes)
    stack_classes(mixture, class_work, classes)
    learn_class_stack(mixture, class_work, mixing, classes, label, importance)


class Oracle:
    """The same on matrices: weights of apple, linear and average, and the sum of the covariances of their scores."""

    def __init__(self) -> None:
        self.weights = np.array([1.0, 0.0, 0.0])
        self.curvature = np.zeros((3, 3))

    def probabilities(self, scores: Numbers) -> Numbers:
        """Of the classes."""
        stacked = np.exp(self.weights @ (scores - scores.max(1, keepdims=True)))
        found: Numbers = stacked / stacked.sum()
        return found

    def learn(self, scores: Numbers, label: int, importance: float) -> None:
        """Make a step of Newton's method."""
        chances = self.probabilities(scores)
        apart = scores - (scores @ chances)[:, None]
        self.curvature = KEEP * self.curvature + importance * (apart * chances) @ apart.T
        step = np.linalg.solve(self.curvature + CLASS_RIDGE * np.eye(3), importance * apart[:, label])
        self.weights = self.weights + step


@pytest.mark.parametrize("classes", [2, 3, 11])
def test_it_learns_as_it_is_described(classes: int) -> None:
    """Against the oracle, with importance weights; what it has no predictors for stays at 0."""
    rng = np.random.default_rng(classes)
    mixture, work, mixing = empty_class_mixture(mixed=True), empty_class_work(classes), empty_mixing()
    oracle, stride = Oracle(), len(work.rivals)
    assert (CLASS_EXPANDED, CLASS_LINEAR, CLASS_AVERAGE) == (0, 1, 2)
    for _ in range(2000):
        truth = rng.normal(size=classes)
        scores = truth + rng.normal(size=(3, classes)) * np.array([[1.0], [2.0], [0.5]])
        label, importance = int((2.0 * truth + rng.gumbel(size=classes)).argmax()), float(rng.choice([0.1, 1.0, 3.0]))
        expected = oracle.probabilities(scores)
        _stack(mixture, work, mixing, scores, label, importance)
        found = work.probabilities[CLASS_STACK * stride :][:classes]
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        oracle.learn(scores, label, importance)
    np.testing.assert_allclose(mixture.stack[[APPLE, LINEAR, AVERAGE]], oracle.weights, rtol=1e-9)
    assert np.count_nonzero(mixture.stack) == 3
    assert mixture.stack[AVERAGE] > mixture.stack[APPLE] > mixture.stack[LINEAR]


def learned(batch: Batch) -> tuple[Learner, Scores]:
    """A mixture of three classes, and its scores."""
    learner = Learner(bare(loss="softmax", classes=3, bits=12, learning_rate=0.5))
    scores = Scores.empty(len(batch.labels))
    learner.learn(batch, 0, len(batch.labels), scores)
    return learner, scores


def test_it_is_sure_where_its_predictors_are_not_sure_enough() -> None:
    """Scores that are too small are made larger: the loss is lower than that of any predictor."""
    rng = np.random.default_rng(1)
    x, ones = rng.normal(size=(6000, 12)), np.ones(6000)
    labels = (4.0 * x @ rng.normal(size=(12, 3)) + rng.gumbel(size=(6000, 3))).argmax(1).astype(np.float64)
    keys = np.tile(rng.integers(1, 1 << 63, 12, np.uint64), 6000)
    batch = Batch(np.arange(0, 12 * 6000 + 1, 12), keys, x.reshape(-1).astype(np.float32), labels, ones)
    learner, scores = learned(batch)
    late = slice(3000, None)
    assert scores.losses[late].mean() < 0.95 * min(
        scores.expanded_losses[late].mean(), scores.linear_losses[late].mean()
    )
    assert learner.mixture_weights()[[LINEAR, APPLE, AVERAGE]].sum() > 1.1
