"""Cuts, held against the definition: quantiles, and Fayyad and Irani's rule computed the slow way."""

from math import log2

import numpy as np
import pytest

from stream_apple.study.tuples.attributes import AttributeTable
from stream_apple.study.tuples.discretisation import discretised, equal_frequency_cuts, mdl_cuts


def slow_mdl_cuts(values: list[float], labels: list[int]) -> list[float]:
    """The rule as it is printed, with lists."""

    def entropy(part: list[int]) -> float:
        shares = [part.count(each) / len(part) for each in set(part)]
        return -sum(share * log2(share) for share in shares)

    pairs = sorted(zip(values, labels, strict=True))
    best: tuple[float, int] | None = None
    classes = [label for _, label in pairs]
    for cut in range(1, len(pairs)):
        if pairs[cut - 1][0] < pairs[cut][0]:
            left, right = classes[:cut], classes[cut:]
            weighted = (len(left) * entropy(left) + len(right) * entropy(right)) / len(pairs)
            if best is None or weighted < best[0] - 1e-12:
                best = weighted, cut
    if best is None:
        return []
    weighted, cut = best
    left, right = classes[:cut], classes[cut:]
    k, k1, k2 = len(set(classes)), len(set(left)), len(set(right))
    delta = log2(3**k - 2) - (k * entropy(classes) - k1 * entropy(left) - k2 * entropy(right))
    if entropy(classes) - weighted <= (log2(len(pairs) - 1) + delta) / len(pairs):
        return []
    halves = pairs[:cut], pairs[cut:]
    inner = [slow_mdl_cuts([value for value, _ in half], [label for _, label in half]) for half in halves]
    return [*inner[0], (pairs[cut - 1][0] + pairs[cut][0]) / 2, *inner[1]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("classes", [2, 3])
def test_mdl_is_the_printed_rule(seed: int, classes: int) -> None:
    """On values with many ties, and classes that depend on some ranges."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=400), 1)
    labels = np.where(rng.random(400) < 0.8, np.digitize(values, [-0.7, 0.4]) % classes, rng.integers(0, classes, 400))
    found = mdl_cuts(values, labels.astype(np.int32))
    assert len(found) >= 2
    np.testing.assert_allclose(found, slow_mdl_cuts(values.tolist(), labels.tolist()))


def test_mdl_accepts_as_the_printed_rule_does() -> None:
    """On few examples, where each term of the description decides for some of them."""
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(400):
        size, classes = int(rng.integers(4, 16)), int(rng.integers(2, 4))
        values = rng.permutation(size) / 1.0
        labels = np.where(rng.random(size) < 0.8, values * classes // size, rng.integers(0, classes, size)).astype(
            np.int32
        )
        found = mdl_cuts(values, labels)
        assert found.tolist() == slow_mdl_cuts(values.tolist(), labels.tolist())
        counts.append(len(found))
    assert {0, 1, 2} <= set(counts)


def test_mdl_cuts_nothing_out_of_noise() -> None:
    """What does not pay for its description is left whole."""
    rng = np.random.default_rng(1)
    assert len(mdl_cuts(rng.normal(size=500), rng.integers(0, 2, 500).astype(np.int32))) == 0


def test_quantiles_hold_equal_shares() -> None:
    """Where values are different; of one that has several bins' share there is one bin, and none is empty."""
    values = np.random.default_rng(0).permutation(np.arange(1200.0))
    bins = np.searchsorted(equal_frequency_cuts(values, 12), values, side="right")
    assert np.bincount(bins).tolist() == pytest.approx([100] * 12, abs=1)
    mostly_zero = np.where(np.arange(1200) % 3 == 0, values, 0.0)
    bins = np.searchsorted(equal_frequency_cuts(mostly_zero, 12), mostly_zero, side="right")
    assert (np.bincount(bins) > 0).all()
    assert len(set(bins[mostly_zero == 0.0])) == 1
    assert bins.max() >= 3


def test_attributes_of_one_value_are_left_out() -> None:
    """Of one value where it is learned: log θ of it is 0. Cuts are found on those rows alone."""
    values = np.column_stack([np.arange(20.0), np.where(np.arange(20) < 10, 4.0, 5.0), np.arange(20) % 3])
    labels = (np.arange(20) % 2).astype(np.int32)
    table = AttributeTable(
        ("number", "constant", "category"), values, np.array([False, False, True]), labels, (0.0, 1.0)
    )
    found = discretised(table, np.arange(10), "quantile", 2)
    assert found.names == ("number", "category")
    assert found.cardinalities.tolist() == [2, 3]
    assert found.codes[:, 0].tolist() == [0] * 4 + [1] * 16
    # Where all would be, there is one.
    nothing = discretised(table, np.array([0, 6]), "mdl")
    assert (nothing.names, nothing.cardinalities.tolist()) == (("category",), [3])
