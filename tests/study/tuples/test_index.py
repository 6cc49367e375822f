"""Features are numbered as they should be: bits, ranks, and what was never seen."""

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from study.tuples.planted import discrete, noisy_classes

from stream_apple.errors import ConfigurationError
from stream_apple.study.tuples.index import all_tuples, index_features
from stream_apple.study.tuples.kernels import count_before, rank_all


def test_rank_is_the_prefix_sum() -> None:
    """Of every bit that is set, how many are set strictly before it; across words, and at their ends."""
    rng = np.random.default_rng(0)
    is_set = rng.random(64 * 9) < 0.4
    is_set[[0, 63, 64, 127, 575]] = True
    is_set[128:192] = False
    is_set[192:256] = True
    words = np.array([sum(1 << int(bit) for bit in np.flatnonzero(part)) for part in is_set.reshape(-1, 64)], np.uint64)
    before, found = np.empty(9, np.int64), np.empty(len(is_set), np.int64)
    assert count_before(words, before) == is_set.sum()
    rank_all(words, before, np.arange(len(is_set)), found)
    naive = np.where(is_set, np.cumsum(is_set) - is_set, -1)
    assert found.tolist() == naive.tolist()


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_features_are_tuples_with_values(order: int) -> None:
    """Each that the rows have is numbered, in the order of tuples and values; others are -1 wherever they appear."""
    table = noisy_classes(60)
    rows = np.arange(30)
    members = all_tuples(4, order)
    index = index_features(table, rows, members)
    every = [
        (chosen, values)
        for chosen in combinations(range(4), order)
        for values in product(*(range(int(table.cardinalities[each])) for each in chosen))
    ]
    had = {(chosen, tuple(table.codes[row, list(chosen)])) for chosen in combinations(range(4), order) for row in rows}
    numbers = {feature: number for number, feature in enumerate(feature for feature in every if feature in had)}
    assert index.features == len(had)
    expected = [
        [numbers.get((chosen, tuple(codes[list(chosen)])), -1) for chosen in combinations(range(4), order)]
        for codes in table.codes
    ]
    assert index.find(table.codes, np.arange(60)).tolist() == expected
    if order > 2:
        assert (np.array(expected) == -1).any()


def test_tuples_have_exactly_so_many_different_attributes() -> None:
    """None twice in one, which would learn single attributes again; lower orders are spanned."""
    members = all_tuples(12, 2)
    assert len(members) == comb(12, 2) == 66
    assert (members[:, 0] < members[:, 1]).all()
    with pytest.raises(ValueError, match="order from 1 to 2"):
        all_tuples(2, 3)


def test_too_many_features_are_refused() -> None:
    """Before memory is asked for."""
    wide = discrete(np.tile(np.array([[0], [4095]]), 3), np.array([0, 1]))
    with pytest.raises(ConfigurationError, match="expected at most 8,589,934,592 possible features, found 68,7"):
        index_features(wide, np.arange(2), all_tuples(3, 3))
