"""Where values are cut: against NumPy's quantiles, and against Fayyad and Irani's rule written down slowly."""

import itertools
import math

import numpy as np
import pytest

from stream_apple.learners.apple.preparation.cuts import information_bits, mdl_cuts, quantile_cuts, spline_points


def entropy(labels: list[int]) -> float:
    """In bits."""
    shares = [labels.count(each) / len(labels) for each in set(labels)]
    return -sum(share * math.log2(share) for share in shares)


def slow_mdl(pairs: list[tuple[float, int]]) -> set[float]:
    """The cuts of all examples, by trying each."""
    pairs, n = sorted(pairs), len(pairs)
    distinct = sorted({value for value, _ in pairs})
    labels = [label for _, label in pairs]
    best = (math.inf, 0.0)
    for cut in distinct[1:]:
        below, above = ([label for value, label in pairs if (value >= cut) is side] for side in (False, True))
        best = min(best, ((len(below) * entropy(below) + len(above) * entropy(above)) / n, cut))
    if best[0] == math.inf:
        return set()
    low, high = ([pair for pair in pairs if (pair[0] >= best[1]) is above] for above in (False, True))
    parts = [labels, [label for _, label in low], [label for _, label in high]]
    k, k1, k2 = (len(set(part)) for part in parts)
    e, e1, e2 = (entropy(part) for part in parts)
    delta = math.log2(3**k - 2) - (k * e - k1 * e1 - k2 * e2)
    if e - best[0] <= (math.log2(n - 1) + delta) / n:
        return set()
    return {best[1]} | slow_mdl(low) | slow_mdl(high)


@pytest.mark.parametrize("seed", range(12))
def test_mdl_against_the_slow_way(seed: int) -> None:
    """Labels that change two or three times along the values, with noise, and values that are often equal."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=200) * (2 + seed), 1).astype(np.float32)
    label = (np.abs(values) > 2) ^ (rng.random(200) < 0.02 * seed)
    cuts = mdl_cuts(values, label)
    assert set(cuts.tolist()) == slow_mdl(list(zip(values.tolist(), label.tolist(), strict=True)))
    assert cuts.tolist() == sorted(cuts.tolist())
    if seed == 0:
        assert len(cuts) == 2


@pytest.mark.parametrize("classes", [3, 5, 40])
def test_mdl_of_several_classes(classes: int) -> None:
    """Whatever their names are, each tells something."""
    rng = np.random.default_rng(classes)
    values = np.round(rng.normal(size=400), 2).astype(np.float32)
    found = np.digitize(values, np.quantile(values, np.arange(1, classes) / classes))
    label = np.where(rng.random(400) < 0.1, rng.integers(0, classes, 400), found)
    cuts = mdl_cuts(values, label)
    assert set(cuts.tolist()) == slow_mdl(list(zip(values.tolist(), label.tolist(), strict=True)))
    assert len(cuts) >= 2
    assert mdl_cuts(values, label * 7.5 - 3).tolist() == cuts.tolist()


def test_mdl_of_more_classes_than_powers_of_three() -> None:
    """3^k is no number any more where each of a thousand values has a class of its own."""
    values = np.arange(2000, dtype=np.float32)
    assert len(mdl_cuts(values, np.arange(2000) // 2)) == 999
    assert len(mdl_cuts(values, (np.arange(2000) >= 700).astype(int))) == 1


def test_information() -> None:
    """Of intervals, their entropy; with classes, the mutual information: both in bits."""
    numbers = np.repeat([0, 1, 2, 3], 25)
    assert information_bits(numbers, None) == pytest.approx(2.0)
    assert information_bits(numbers, numbers > 1) == pytest.approx(1.0)
    assert information_bits(numbers, np.tile([0, 1, 2, 3, 4], 20)) == pytest.approx(0.0)
    assert information_bits(numbers, numbers * 2.5) == pytest.approx(2.0)


def test_mdl_of_noise_and_of_one_class() -> None:
    """Nothing is cut that tells nothing."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=500).astype(np.float32)
    assert not len(mdl_cuts(values, rng.random(500) < 0.5))
    assert not len(mdl_cuts(values, np.ones(500, np.bool_)))
    assert not len(mdl_cuts(np.ones(500, np.float32), rng.random(500) < 0.5))


@pytest.mark.parametrize("bins", [2, 6, 12, 64])
def test_quantiles_are_numpys(bins: int) -> None:
    """Of many different values each interval has its share."""
    values = np.random.default_rng(bins).lognormal(size=777).astype(np.float32)
    cuts = quantile_cuts(values, bins)
    expected = np.quantile(values, np.arange(1, bins) / bins, method="lower")
    assert cuts.tolist() == expected.astype(np.float32).tolist()
    sizes = np.bincount(np.searchsorted(cuts, values, side="right"))
    assert len(sizes) == bins
    assert sizes.max() - sizes.min() <= 2


def test_few_values_have_an_interval_each() -> None:
    """However often there is each of them."""
    values = np.repeat(np.array([-3.0, 0.0, 0.5, 9.0], np.float32), [1, 500, 2, 30])
    assert quantile_cuts(values, 4).tolist() == [0.0, 0.5, 9.0]
    assert quantile_cuts(values[:1], 4).tolist() == []


def test_a_value_with_more_than_its_share_stands_alone() -> None:
    """Zeros of most examples do not share their interval with the smallest of the others."""
    values = np.concatenate([np.zeros(400), np.arange(1, 101)]).astype(np.float32)
    cuts = quantile_cuts(values, 6)
    assert cuts.tolist() == [1.0, 16.0]
    for low, high in itertools.pairwise([*cuts.tolist(), np.inf]):
        assert ((values >= low) & (values < high)).any()


@pytest.mark.parametrize("most", [2, 6, 64])
def test_points_of_splines_reach_from_end_to_end(most: int) -> None:
    """The least value and the largest, and quantiles between, so that there are as many values between each two."""
    values = np.random.default_rng(most).lognormal(size=777).astype(np.float32)
    points = spline_points(values, most)
    assert points.tolist() == [values.min(), *quantile_cuts(values, most - 1).tolist(), values.max()]
    assert len(points) == most


def test_points_where_values_are_few_or_one_is_frequent() -> None:
    """Few values are a point each; one that most examples have is a point, and so is the next above it."""
    few = np.repeat(np.array([-3.0, 0.0, 0.5, 9.0], np.float32), [1, 500, 2, 30])
    assert spline_points(few, 4).tolist() == [-3.0, 0.0, 0.5, 9.0]
    frequent = np.concatenate([np.zeros(400), np.arange(1, 101)]).astype(np.float32)
    assert spline_points(frequent, 6).tolist() == [0.0, 1.0, 100.0]
