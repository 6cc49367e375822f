"""The interval is that of its formula, however observations are cut into calls, and holds while one peeks."""

import doctest
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_apple.comparing import confidence
from stream_apple.comparing.confidence import FIRST, ConfidenceSequence, Interval, margin

ALPHA = 0.05
DRAWS = {
    "normal": lambda draw, size: draw.normal(size=size),
    "heavy": lambda draw, size: draw.standard_t(3, size),
    "skewed": lambda draw, size: draw.exponential(size=size) - 1.0,
    "rare": lambda draw, size: (draw.random(size) < 0.01) - 0.01,
}


def missed(draw: np.random.Generator, kind: str, size: int, times: int) -> float:
    """The share of sequences whose interval is ever without the mean, 0, looked at after each observation."""
    found = 0
    for _ in range(times):
        means, radii = ConfidenceSequence(ALPHA).add(DRAWS[kind](draw, size).astype(np.float64))
        found += bool((np.abs(means) > radii).any())
    return found / times


def test_the_examples_of_the_docstrings() -> None:
    """They say what comes out."""
    assert doctest.testmod(confidence).failed == 0


@pytest.mark.parametrize("kind", DRAWS)
def test_it_covers_whoever_peeks_at_every_observation(kind: str) -> None:
    """Of 400 sequences, so few miss the mean as do with probability .001 if each does with probability .05."""
    assert missed(np.random.default_rng(1), kind, 10_000, 400) <= 0.09


def test_an_interval_of_one_time_would_not() -> None:
    """The yardstick: 1.96 standard errors, looked at as often, miss it in a large part of the sequences."""
    draw, found = np.random.default_rng(1), 0
    for _ in range(200):
        values = draw.normal(size=10_000)
        means = np.cumsum(values) / np.arange(1, 10_001)
        found += bool((np.abs(means) > 1.96 / np.sqrt(np.arange(1, 10_001)))[FIRST:].any())
    assert found > 40  # a fifth; of ours no more than one in twenty


@pytest.mark.long
@pytest.mark.parametrize("kind", DRAWS)
def test_it_covers_over_a_hundred_thousand(kind: str) -> None:
    """Of 2,000 long sequences, each looked at after each observation."""
    assert missed(np.random.default_rng(2), kind, 100_000, 2_000) <= 0.06


def test_a_mean_that_drifts_is_covered() -> None:
    """What is estimated is the mean of the means so far."""
    draw, size, found = np.random.default_rng(3), 10_000, 0
    truth = np.sin(np.arange(size) / 900.0) + np.linspace(0.0, 2.0, size)
    so_far = np.cumsum(truth) / np.arange(1, size + 1)
    for _ in range(200):
        means, radii = ConfidenceSequence(ALPHA).add(truth + draw.normal(size=size))
        found += bool((np.abs(means - so_far) > radii).any())
    assert found <= 18


def test_weighted_observations_are_covered() -> None:
    """Weights of any kind, which go with the observations: the mean is the ratio of the sums."""
    draw, found = np.random.default_rng(4), 0
    for _ in range(300):
        weights = draw.exponential(size=8_000)
        means, radii = ConfidenceSequence(ALPHA).add(draw.normal(size=8_000) + weights, weights)
        found += bool((np.abs(means - 2.0) > radii).any())  # E[w^2] / E[w]
    assert found <= 27


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    cuts=st.sets(st.integers(1, 59)),
    shift=st.sampled_from([0.0, 1e8]),
    data=st.data(),
)
def test_however_observations_are_cut(values: list[float], cuts: set[int], shift: float, data: st.DataObject) -> None:
    """Mean and deviation are those of all observations at once, weighted or not, near 0 or far from it."""
    count = len(values)
    given_weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=count, max_size=count))
    told, weights = np.array(values) + shift, np.array(given_weights)
    sequence, means = ConfidenceSequence(ALPHA), list[float]()
    for part in np.split(np.arange(count), sorted(cut for cut in cuts if cut < count)):
        means.extend(sequence.add(told[part], weights[part])[0])
    assert sequence.observations == np.count_nonzero(weights)
    if weights.any():
        mean = np.average(told, weights=weights)
        assert math.isclose(means[-1], mean, rel_tol=1e-9, abs_tol=1e-6)
        assert sequence.interval == Interval(means[-1], math.inf)


def _by_the_formula(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """The radius, two passes over all observations."""
    kept = weights > 0.0
    count, values, weights = int(kept.sum()), values[kept], weights[kept]
    linear = weights * (values - np.average(values, weights=weights)) / weights.mean()
    deviation = math.sqrt(float(np.square(linear).sum()) / (count - 1))
    return deviation * float(margin(np.array([float(count)]), ALPHA)[0])


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_the_radius_is_the_formulas(shift: float) -> None:
    """With weights, some of them 0, far from 0 and in many calls."""
    draw = np.random.default_rng(5)
    values, weights = draw.normal(size=5_000) + shift, draw.choice([0.0, 0.1, 1.0, 7.0], 5_000)
    sequence, radii = ConfidenceSequence(ALPHA), list[float]()
    for part in np.split(np.arange(5_000), [1, 2, 700, 701, 3_000]):
        radii.extend(sequence.add(values[part], weights[part])[1])
    assert math.isclose(radii[-1], _by_the_formula(values, weights), rel_tol=1e-6)
    first = int(np.searchsorted(np.cumsum(weights > 0.0), FIRST))
    assert np.isinf(radii[:first]).all()
    assert math.isclose(radii[first], _by_the_formula(values[: first + 1], weights[: first + 1]), rel_tol=1e-6)
    assert sequence.interval.radius == radii[-1]


def test_before_the_first_observation_nothing_is_known() -> None:
    """Nor with observations of no weight."""
    sequence = ConfidenceSequence(ALPHA)
    sequence.add(np.array([7.0]), np.array([0.0]))
    assert math.isnan(sequence.interval.mean)
    assert sequence.interval.radius == math.inf


def test_equal_observations_have_no_deviation() -> None:
    """Two groups that answer alike to the bit: the difference is 0, and the interval a point."""
    sequence = ConfidenceSequence(ALPHA)
    sequence.add(np.zeros(FIRST))
    assert sequence.interval == Interval(0.0, 0.0)
