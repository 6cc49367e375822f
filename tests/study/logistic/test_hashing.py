"""The hashing trick: what it keeps, and what its kernel is in the mean."""

import numpy as np
import pytest
from study.logistic.sample_rows import dense, random_rows, rows_from

from stream_apple.study.logistic.hashing import AdaptiveLogistic, hashed, mixed
from stream_apple.study.logistic.sparse_rows import fold


def test_nothing_is_changed_where_nobody_shares() -> None:
    """With the identity as hash, and slots enough, the scores are those without hashing, to the bit."""
    rng = np.random.default_rng(1)
    rows = random_rows(rng, 300, 20)
    rows = fold(rows, rows.columns, None, 20)  # each column once
    wide = fold(rows, rows.columns, None, 64)
    np.testing.assert_array_equal(AdaptiveLogistic(20, 0.3).learn(rows), AdaptiveLogistic(64, 0.3).learn(wide))


def test_features_of_one_slot_are_one_feature() -> None:
    """Of the summed value, before anything is learned from it: AdaGrad takes the square of the sum."""
    shared = rows_from([(1.0, {0: 1.0, 1: 2.0, 2: -0.5}), (0.0, {1: 1.0}), (1.0, {0: 3.0})], 3)
    summed = rows_from([(1.0, {0: 2.5}), (0.0, {0: 1.0}), (1.0, {0: 3.0})], 1)
    folded = fold(shared, np.zeros(5, np.int64), None, 1)
    np.testing.assert_array_equal(dense(folded), dense(summed))
    np.testing.assert_array_equal(AdaptiveLogistic(1, 0.3).learn(folded), AdaptiveLogistic(1, 0.3).learn(summed))


def test_a_sum_below_zero_is_kept() -> None:
    """V[h] > 0 in the lecture's listing must be V[h] != 0; only what cancels is left out."""
    rows = rows_from([(1.0, {0: 1.0, 1: 3.0, 2: 2.0}), (0.0, {1: 1.0, 2: -1.0})], 3)
    signs = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    folded = fold(rows, np.array([0, 0, 1, 0, 1]), signs, 2)
    np.testing.assert_array_equal(dense(folded), [[-2.0, 2.0], [-1.0, -1.0]])
    cancelled = fold(rows, np.array([0, 0, 0, 1, 1]), np.array([1.0, -1.0, 1.0, 1.0, 1.0]), 2)
    assert (list(cancelled.indptr), list(cancelled.columns)) == ([0, 0, 0], [])


def test_the_kernel_in_the_mean() -> None:
    """Over seeds: E<V, V'> = <x, x'>, its variance that of Weinberger et al.; without signs it is too large."""
    rng = np.random.default_rng(2)
    size, bits = 40, 4
    x, other = np.abs(rng.normal(size=(2, size)))
    rows = rows_from([(1.0, dict(enumerate(x))), (1.0, dict(enumerate(other)))], size)
    keys = rng.integers(1, 1 << 62, size).astype(np.uint64)
    found = {signed: np.empty(4000) for signed in (False, True)}
    for signed, products in found.items():
        for seed in range(len(products)):
            v, w = dense(hashed(rows, keys, bits, signed=signed, seed=seed))
            products[seed] = v @ w
    exact = x @ other
    # sum over i != j of x_i^2 x'_j^2 + x_i x'_i x_j x'_j, over the slots
    variance = ((x @ x) * (other @ other) + exact**2 - 2 * (x**2 @ other**2)) / (1 << bits)
    unbiased = found[True]
    assert unbiased.mean() == pytest.approx(exact, abs=4 * np.sqrt(variance / len(unbiased)))
    assert unbiased.var() == pytest.approx(variance, rel=0.15)
    biased = exact + (x.sum() * other.sum() - exact) / (1 << bits)
    assert found[False].mean() == pytest.approx(biased, rel=0.02)
    assert biased > exact + 10 * np.sqrt(variance / len(unbiased))


def test_signs_do_not_depend_on_slots() -> None:
    """In each slot about half of the features have either sign, and slots are evenly filled."""
    keys = np.arange(1, 16_001, dtype=np.uint64)
    rows = rows_from([(1.0, dict.fromkeys(range(16_000), 1.0))], 16_000)
    sums = dense(hashed(rows, keys, 4, signed=True))[0]
    counts = dense(hashed(rows, keys, 4, signed=False))[0]
    assert counts.min() > 850
    assert counts.max() < 1150
    assert np.abs(sums).max() < 5 * np.sqrt(1000)


def test_hashes_of_different_keys_differ() -> None:
    """The hash is one to one, and another one for each seed."""
    keys = np.arange(100_000, dtype=np.uint64)
    assert len(np.unique(mixed(keys))) == len(keys)
    assert not np.any(mixed(keys) == mixed(keys, seed=1))


def test_adagrad_counts_the_step_itself() -> None:
    """The first step is the rate, whatever the gradient: its square is added before it divides."""
    model = AdaptiveLogistic(2, 0.3)
    model.learn(rows_from([(1.0, {0: 0.01, 1: -50.0})], 2))
    scores = model.predict(rows_from([(1.0, {0: 1.0}), (1.0, {1: 1.0}), (1.0, {})], 2))
    np.testing.assert_allclose(scores, [0.6, 0.0, 0.3], atol=1e-12)


def test_adagrad_follows_its_definition() -> None:
    """Beside a loop over matrices; an example that is beyond doubt teaches nothing, and breaks nothing."""
    rng = np.random.default_rng(6)
    rows = random_rows(rng, 200, 8)
    rows = fold(rows, rows.columns, None, 8)
    certain = rows_from([(1.0, {0: 1e6}), (1.0, {0: 1e6}), (1.0, {7: 1.0})], 8)
    for each in (rows, certain):
        scores = AdaptiveLogistic(8, 0.3).learn(each)
        w, squares, expected = np.zeros(9), np.zeros(9), []
        for x, y in zip(np.c_[dense(each), np.ones(len(each.labels))], each.labels, strict=True):
            expected.append(w @ x)
            g = (y - 1 / (1 + np.exp(-(w @ x)))) * x
            squares += g * g
            w += 0.3 * g / np.sqrt(np.where(squares > 0, squares, 1.0))
        np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-12)
        assert np.isfinite(scores).all()
