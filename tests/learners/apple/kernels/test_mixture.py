"""What is published: against an oracle, and never noticeably worse than the linear predictor, whatever the scores."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.oracles.mixture import MixtureOracle

from stream_apple.core.jit import kernel
from stream_apple.learners.apple.kernels import mixture as mixtures
from stream_apple.learners.apple.kernels.mixture import SHARE, effective_weights, empty_mixture
from stream_apple.learners.apple.kernels.update import Target
from stream_apple.learners.apple.state.model import Mixture
from stream_apple.learners.apple.state.weights import LINEAR, PREDICTORS
from stream_apple.learners.apple.state.work import Mixing, empty_mixing
from stream_apple.learners.losses import LOGISTIC, SQUARED

BOUND = 50.0
PRIOR = math.log(1 / 0.9)

Rows = NDArray[np.float64]


@kernel
def _publish(mixture: Mixture, mixing: Mixing, loss: int, low: float, high: float) -> float:
    """What kernels call can't be called from here."""
    return mixtures.blend(mixture, mixing, loss, low, high)


@kernel
def _learn(mixture: Mixture, mixing: Mixing, loss: int, target: Target, bounds: tuple[float, float]) -> None:
    mixtures.learn_mixture(mixture, mixing, 0.0, loss, target, bounds, 0.0)


class Published:
    """A mixture that is fed with scores from outside."""

    def __init__(self, *, logistic: bool) -> None:
        self.mixture, self.mixing = empty_mixture(mixed=True), empty_mixing()
        self.loss = (LOGISTIC if logistic else SQUARED).number

    def score(self, raw: Rows, low: float, high: float) -> float:
        """What is published."""
        self.mixing.scores[:PREDICTORS], self.bounds = raw, (low, high)
        return float(_publish(self.mixture, self.mixing, self.loss, low, high))

    def learn(self, label: float, importance: float, score: float = 0.0) -> None:
        """From the example that was scored last."""
        target = Target(score, label, importance)
        _learn(self.mixture, self.mixing, self.loss, target, self.bounds)


def loss_of(score: float, label: float, *, logistic: bool) -> float:
    """Of one score."""
    return float(np.logaddexp(0.0, -score * label)) if logistic else (score - label) ** 2


def stream(size: int, seed: int, *, logistic: bool, spread: float) -> tuple[Rows, Rows, Rows]:
    """Scores of six predictors, some of them good, some beyond the range; labels and importance weights."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(size) < 0.5, -1.0, 1.0) if logistic else rng.random(size) * spread
    unit = 3.0 if logistic else spread
    noise = rng.normal(size=(size, PREDICTORS)) * unit * rng.choice([0.1, 0.5, 3.0], PREDICTORS)
    return labels[:, None] + noise, labels, rng.choice([0.25, 1.0, 5.0], size)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("logistic", "spread", "at_ends"),
    [(True, 0.0, False), *((False, spread, at_ends) for spread in (1.0, 1e-3, 1e6) for at_ends in (False, True))],
)
def test_mixture_equals_the_oracle(logistic: bool, spread: float, at_ends: bool, seed: int) -> None:  # noqa: FBT001
    """Published scores, shares and stack, example by example; labels are at either end, between them, or anywhere."""
    ours, oracle = Published(logistic=logistic), MixtureOracle(logistic=logistic)
    low, high = (-BOUND, BOUND) if logistic else (0.0, spread)
    scores, labels, importances = stream(300, seed, logistic=logistic, spread=spread)
    if at_ends:
        labels = spread * np.round(2.0 * labels / spread) / 2.0
    for raw, label, importance in zip(scores, labels, importances, strict=True):
        score = ours.score(raw, low, high)
        assert score == pytest.approx(oracle.score(raw, low, high), rel=1e-9, abs=1e-9 * (high - low))
        ours.learn(float(label), float(importance))
        oracle.learn(float(label), float(importance), high - low)
        np.testing.assert_allclose(ours.mixture.shares, oracle.shares, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ours.mixture.stack, oracle.stack, rtol=1e-9, atol=1e-9)
    lower = np.tril(ours.mixture.curvature)
    np.testing.assert_allclose(lower, np.tril(oracle.matrix), rtol=1e-9)
    expected = oracle.shares[2] * oracle.stack + np.array([oracle.shares[0], 0, oracle.shares[1], 0, 0, 0])
    np.testing.assert_allclose(effective_weights(ours.mixture), expected, rtol=1e-8, atol=1e-9)


def test_without_a_range_nothing_is_learned_and_its_one_label_is_published() -> None:
    """All labels zero."""
    ours = Published(logistic=False)
    for _ in range(5):
        assert ours.score(np.array([3.0, -1, 2, 1e30, 0, 1]), 0.0, 0.0) == 0.0
        ours.learn(0.0, 1.0)
    assert [array.tolist() for array in ours.mixture] == [array.tolist() for array in empty_mixture(mixed=True)]


@pytest.mark.parametrize("logistic", [True, False], ids=["logistic", "squared"])
def test_scores_far_beyond_the_bounds_are_clipped(logistic: bool) -> None:  # noqa: FBT001
    """At either bound, all of them or one against the others, for as long as one likes; nothing overflows."""
    low, high, labels = (-BOUND, BOUND, (-1.0, 1.0)) if logistic else (0.0, 7.0, (0.0, 7.0))
    for signs in ([1] * 6, [-1] * 6, [1, -1, -1, -1, -1, -1], [-1, 1, 1, 1, 1, 1], [0, -1, 1, -1, 1, -1]):
        ours = Published(logistic=logistic)
        for at in range(200):
            score = ours.score(1e30 * np.array(signs, float), low, high)
            assert low <= score <= high
            assert (np.abs(ours.mixing.scores) <= max(-low, high)).all()
            ours.learn(labels[at // 50 % 2], 1.0, score)
            assert np.isfinite(ours.mixture.stack).all()
            assert ours.mixture.shares.sum() == pytest.approx(1.0, abs=1e-12)
            assert (ours.mixture.shares >= 0.999 * SHARE * np.array(mixtures.FIRST_SHARES)).all()


def test_constant_labels_are_published() -> None:
    """Once one predictor gives them, whoever it is but the linear one."""
    ours = Published(logistic=False)
    for _ in range(200):
        score = ours.score(np.array([0.0, 4, 4, 4, 0, 0]), 0.0, 4.0)
        ours.learn(4.0, 1.0, score)
    assert score == pytest.approx(4.0, abs=0.01)


def test_the_stack_is_as_sure_as_two_labels_allow() -> None:
    """A predictor whose scores have the right sign and half the size is doubled, though a few are then too large."""
    rng = np.random.default_rng(5)
    ours, lost, alone = Published(logistic=False), 0.0, 0.0
    for label in np.where(rng.random(3_000) < 0.5, -1.0, 1.0).tolist():
        size = rng.choice([0.4, 0.9])
        lost += (ours.score(np.full(PREDICTORS, label * size), -1.0, 1.0) - label) ** 2
        alone += (size - 1.0) ** 2
        ours.learn(label, 1.0)
    assert lost < 0.1 * alone
    assert ours.mixture.stack.sum() > 2.0


SCORES = st.lists(st.floats(-1.5, 1.5, width=32), min_size=PREDICTORS, max_size=PREDICTORS)
STEPS = st.lists(st.tuples(SCORES, st.floats(0, 1), st.floats(0.001, 1)), min_size=1, max_size=40)


@pytest.mark.parametrize("logistic", [True, False], ids=["logistic", "squared"])
@given(
    steps=STEPS,
    repeated=st.integers(1, 10),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    heaviest=st.sampled_from([0.01, 1.0, 1000.0]),
)
@settings(max_examples=150)
def test_loss_is_bounded_by_the_linear_one_whatever_the_scores(
    logistic: bool,  # noqa: FBT001
    steps: list[tuple[list[float], float, float]],
    repeated: int,
    scale: float,
    heaviest: float,
) -> None:
    """Published loss - linear loss <= log(1/0.9) * heaviest weight, times half the squared range for the squared loss.

    And as much as the fixed share costs. Labels keep their range, and no example is heavier than the first.
    """
    ours, excess = Published(logistic=logistic), 0.0
    low, high = (-BOUND, BOUND) if logistic else (-scale / 2, scale / 2)
    unit = heaviest * (1.0 if logistic else scale**2 / 2)
    allowed = PRIOR * (1 + 1e-9)
    for at, (raw, part, share) in enumerate(steps * repeated):
        importance = heaviest * (share if at else 1.0)
        label = (1.0 if part > 0.5 else -1.0) if logistic else low + part * scale
        score = ours.score(np.array(raw) * (20 if logistic else scale), low, high)
        linear = float(ours.mixing.scores[LINEAR])
        ours.learn(label, importance, score)
        lost = loss_of(score, label, logistic=logistic) - loss_of(linear, label, logistic=logistic)
        excess += importance * lost / unit
        allowed += -math.log1p(-SHARE) + 1e-12
        assert excess <= allowed
