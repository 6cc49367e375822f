"""Products of a stretch of examples, against multiplication by hand."""

import itertools

import numpy as np
import pytest
from support.monomial_batches import batch_of, key_of

from study.runs import monomials
from study.runs.monomials import AdmittedProduct, as_batch, base_entries, candidate_entries, expanded

ROWS: list[dict[int, float]] = [{1: 2.0, 2: 3.0, 5: 1.0}, {}, {2: -1.0, 5: 1.0}, {1: 4.0, 5: 1.0}]


MIXED = {key: key_of(key) for key in (1, 2, 5)}


def seen(rows: np.ndarray, keys: np.ndarray, values: np.ndarray) -> dict[tuple[int, int], float]:
    """(row, key) -> value, each of them once."""
    found = dict(zip(zip(rows.tolist(), keys.tolist(), strict=True), values.tolist(), strict=True))
    assert len(found) == len(rows)
    return found


def test_products_of_products() -> None:
    """x1 x2 and x1 x2 x2 are in the one example that has both; the order of examples is kept."""
    base = base_entries(batch_of(ROWS))
    pair, triple = key_of(1, 2), key_of(1, 2, 2)
    whole = expanded(base, {pair: AdmittedProduct(MIXED[1], MIXED[2]), triple: AdmittedProduct(pair, MIXED[2])})
    assert seen(*whole) == seen(*base) | {(0, pair): 6.0, (0, triple): 18.0}
    assert (np.diff(whole.rows) >= 0).all()
    batch = as_batch(whole, np.arange(4.0), np.ones(4))
    assert np.diff(batch.indptr).tolist() == [5, 0, 2, 2]


def test_a_feature_that_stands_twice_counts_once() -> None:
    """The first: as the learner has it."""
    twice = batch_of([{1: 2.0, 2: 3.0}])._replace(keys=np.array([1, 1], np.uint64))
    assert base_entries(twice).values.tolist() == [2.0]


def test_candidates() -> None:
    """Each product once an example, also if two parents make it; none that is learned already; no 1 times itself."""
    base = base_entries(batch_of(ROWS))
    current = expanded(base, {key_of(1, 2): AdmittedProduct(MIXED[1], MIXED[2])})
    parents = [MIXED[1], MIXED[5]]
    (found,) = candidate_entries(base, current, parents, {})
    assert seen(found.rows, found.keys, found.heads * found.values) == {
        (0, key_of(1, 1)): 4.0,
        (0, key_of(1, 5)): 2.0,
        (0, key_of(2, 5)): 3.0,
        (2, key_of(2, 5)): -1.0,
        (3, key_of(1, 1)): 16.0,
        (3, key_of(1, 5)): 4.0,
    }
    assert set(zip(found.keys.tolist(), found.parents.tolist(), found.factors.tolist(), strict=True)) == {
        (key_of(1, 1), 0, MIXED[1]),
        (key_of(1, 5), 0, MIXED[5]),
        (key_of(2, 5), 1, MIXED[2]),
    }


def test_one_times_itself_is_no_candidate_of_a_product_either() -> None:
    """x1 x5 times x5, which is 1, is x1 x5."""
    base = base_entries(batch_of(ROWS))
    pair = key_of(1, 5)
    current = expanded(base, {pair: AdmittedProduct(MIXED[1], MIXED[5])})
    (found,) = candidate_entries(base, current, [pair], {pair: frozenset({MIXED[1], MIXED[5]})})
    assert set(found.keys.tolist()) == {key_of(1, 1, 5), key_of(1, 2, 5)}


def test_portions_have_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small they are, and each example is in one of them."""
    rng = np.random.default_rng(0)
    rows = [{1: float(a), 2: float(b), 5: 1.0} for a, b in rng.normal(size=(20, 2))]
    base = base_entries(batch_of(rows))
    parents = list(MIXED.values())
    (whole,) = candidate_entries(base, base, parents, {})
    monkeypatch.setattr(monomials, "_PORTION", 30)
    portions = list(candidate_entries(base, base, parents, {}))
    assert len(portions) > 3
    examples = [set(portion.rows.tolist()) for portion in portions]
    assert all(not (one & other) for one, other in itertools.combinations(examples, 2))
    together = [np.concatenate(columns) for columns in zip(*portions, strict=True)]
    assert seen(together[0], together[1], together[3] * together[5]) == seen(
        whole.rows, whole.keys, whole.heads * whole.values
    )
