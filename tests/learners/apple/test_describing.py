"""What the learner says of itself and of a score agrees with its table."""

from typing import Any

import numpy as np
import pytest
from learners.batches import drawn_batch, learn_all

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.port import Factor
from stream_apple.learners.scores import Scores

ROWS = 900


def learned(**chosen: Any) -> Learner:
    """A learner of drawn examples whose epochs end every 300."""
    learner = Learner(Options(bits=12, **chosen))
    learn_all(learner, drawn_batch(ROWS, 1), (300, 600))
    return learner


@pytest.mark.parametrize("method", ["apple", "linear", "quadratic"])
def test_one_predictor_s_score_is_the_sum_of_its_terms(method: str) -> None:
    """Without a mixture nothing is left, and no term has weights of other predictors."""
    options = Options(loss="logistic", bits=12, method=method, mixture=False)  # type: ignore[arg-type]
    learner, batch = Learner(options), drawn_batch(ROWS, 1)
    learn_all(learner, batch, (300, 600))
    for row in range(0, 60, 7):
        (parts,) = learner.explain(batch.rows(row, row + 1))
        assert parts.score == pytest.approx(sum(term.weight * term.value for term in parts.terms), abs=1e-5)
        assert not parts.shares
        assert all(not term.weights for term in parts.terms)


def test_each_predictor_s_score_is_the_sum_of_its_weights() -> None:
    """Those of linear and of all features are what scoring has for them."""
    learner, batch = learned(loss="logistic"), drawn_batch(ROWS, 1)
    scores = Scores.empty(ROWS)
    learner.score_rows(batch, 0, ROWS, scores)
    for row in range(0, 60, 7):
        (parts,) = learner.explain(batch.rows(row, row + 1))
        assert dict(parts.shares) == dict(learner.describe().weights)
        sums = np.array([np.multiply(term.weights, term.value) for term in parts.terms]).sum(axis=0)
        own = dict(zip(parts.shares, sums.tolist(), strict=True))
        assert own["linear"] == pytest.approx(scores.linear[row], abs=1e-5)
        assert own["expanded"] == pytest.approx(scores.expanded[row], abs=1e-5)


def test_factors_without_a_slot_are_found_if_their_keys_are_known() -> None:
    """A base feature that has lost its slot is a factor of products that have theirs."""
    learner = learned(loss="logistic", discretise="none")
    slots = learner.table.slots
    product = next(term for term in learner.find(100).products if len(set(term.factors)) == 2)
    lost = product.factors[0]
    (place,) = np.flatnonzero(slots["key"][:-1] == np.uint64(lost.key))
    slots["key"][place], slots["degree"][place] = 0, 0
    learner.table.tags[place >> 3] &= ~np.uint64(0xFF << 8 * (place & 7))
    known = np.array([lost.key], np.uint64)
    found = [learner.find(100, keys).products for keys in (known, known[:0])]
    with_key, without = (
        next(term for term in terms if (term.weight, term.value) == (product.weight, product.value)) for terms in found
    )
    assert with_key == product
    assert without.unknown > 0


def test_splines_are_described_as_endings_of_their_number() -> None:
    """Hats and centered values have the key of the number, which has a name, and are factors of products."""
    learner = learned(loss="logistic")
    numbers = set(learner.preparation.splines.features.tolist())
    factors = {factor for term in learner.find(200).heaviest for factor in term.factors}
    assert {factor.key for factor in factors if factor.ending} <= numbers
    assert any(factor.ending.startswith("\u2248") for factor in factors)
    (splines,) = (table for table in learner.find(50).tables if table.title == "Numbers as splines")
    assert {row[0].factors for row in splines.rows} <= {(Factor(number),) for number in numbers}  # type: ignore[union-attr]
