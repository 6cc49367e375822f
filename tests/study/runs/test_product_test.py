"""Whether a product would help: sums against a slow reckoning, and how often what is of no use passes."""

import numpy as np
import pytest
from support.monomial_batches import batch_of, key_of

from study.runs.monomials import AdmittedProduct, base_entries, candidate_entries, expanded
from study.runs.product_test import Judged, Residuals, judge


def judged(values: np.ndarray, residuals: np.ndarray, weights: np.ndarray | None = None) -> Judged:
    """All pairs of the columns, whose zeros are left out."""
    rows = [{1 + i: float(x) for i, x in enumerate(row) if x} for row in values]
    base = base_entries(batch_of(rows))
    parents = np.unique(base.keys)
    weights = np.ones(len(rows)) if weights is None else weights
    return judge(
        candidate_entries(base, base, parents.tolist(), {}), parents, base, Residuals.around_mean(residuals, weights)
    )


def test_sums_are_those_of_centred_features() -> None:
    """With zeros left out, weights, and numbers that are far from 0."""
    rng = np.random.default_rng(3)
    values = np.where(rng.random((50, 2)) < 0.3, 0.0, rng.normal(7, 2, (50, 2))).astype(np.float32).astype(float)
    values[0] = 1.5, 2.5
    weights, residuals = rng.uniform(0.5, 2, 50), rng.normal(size=50)
    found = judged(values, residuals, weights)
    assert len(found.keys) == 3  # both squares, and the pair
    place = found.keys.tolist().index(key_of(1, 2))
    mean = np.average(values, axis=0, weights=weights)
    centred = np.prod(values - mean, axis=1)
    slopes = weights * (residuals - np.average(residuals, weights=weights)) * centred
    assert found.slopes[place] == pytest.approx(slopes.sum())
    assert found.variances[place] == pytest.approx((slopes**2).sum())
    assert found.squares[place] == pytest.approx((weights * centred**2).sum())


def test_a_product_of_a_product_is_judged_by_its_parent() -> None:
    """Its values are p x, of the parent p."""
    rng = np.random.default_rng(4)
    values, residuals = rng.normal(3, 1, (40, 3)).astype(np.float32).astype(float), rng.normal(size=40)
    base = base_entries(batch_of([dict(enumerate(map(float, row), 1)) for row in values]))
    pair = key_of(1, 2)
    features = expanded(base, {pair: AdmittedProduct(key_of(1), key_of(2))})
    members = {pair: frozenset({key_of(1), key_of(2)})}
    found = judge(
        candidate_entries(base, features, [pair], members),
        np.array([pair], np.uint64),
        features,
        Residuals.around_mean(residuals, np.ones(40)),
    )
    head = values[:, 0] * values[:, 1]
    centred = (head - head.mean()) * (values[:, 2] - values[:, 2].mean())
    place = found.keys.tolist().index(key_of(1, 2, 3))
    assert found.slopes[place] == pytest.approx(((residuals - residuals.mean()) * centred).sum())


def test_what_is_of_no_use_hardly_ever_passes() -> None:
    """Residuals of noise, of another size where the first feature is large: of 200 stretches about ten may err."""
    errors = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        values = rng.normal(5, 1, (300, 4))
        noise = rng.normal(size=300) * np.where(values[:, 0] > 5, 2.0, 0.5)
        errors += len(judged(values, noise).passed()) > 0
    assert errors <= 20


def test_what_is_useful_passes_and_the_best_comes_first() -> None:
    """Two planted pairs of numbers that are far from 0, beside the columns' own weights."""
    rng = np.random.default_rng(1)
    values = rng.normal(10, 1, (2000, 4))
    centred = values - 10
    residuals = centred[:, 0] * centred[:, 1] + 0.3 * centred[:, 2] * centred[:, 3] + rng.normal(size=2000)
    found = judged(values, residuals)
    assert [int(found.keys[place]) for place in found.passed()] == [key_of(1, 2), key_of(3, 4)]


def test_what_was_seen_seldom_does_not_pass() -> None:
    """Three examples that all point the same way prove nothing."""
    values = np.zeros((300, 2))
    values[:3] = 1.0
    values[3:100, 0] = values[100:200, 1] = 1.0
    residuals = np.where(values.all(axis=1), 1.0, np.random.default_rng(0).normal(scale=0.1, size=300))
    assert len(judged(values, residuals).passed()) == 0


def test_nothing_is_judged_without_examples() -> None:
    """An epoch of no examples admits nothing."""
    base = base_entries(batch_of([{}]))
    found = judge([], np.empty(0, np.uint64), base, Residuals.around_mean(np.empty(0), np.empty(0)))
    assert len(found.passed()) == 0
