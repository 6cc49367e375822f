"""Features of equal hash share a weight, within an example and between examples; the size of the table is fixed."""

import math

import numpy as np
import pytest
from learners.hashed.rows import (
    batch_of,
    drawn_labels,
    drawn_rows,
    key_range,
    keys_of_one_slot,
    learned,
    predictions,
    slot_of,
)

from stream_apple.learners.hashed.learner import HashedLearner
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.port import Factor
from stream_apple.learners.scores import Scores

BITS = 8
DESCENTS = pytest.mark.parametrize("descent", ["adaptive", "plain"])


@DESCENTS
def test_what_one_feature_learns_scores_the_other(descent: str) -> None:
    """The learner can't tell apart features that share a slot."""
    one, other = keys_of_one_slot(BITS)
    learner = learned(batch_of([{one: 1.0}] * 5, [1.0] * 5), bits=BITS, descent=descent)
    scores = predictions(learner, batch_of([{one: 2.0}, {other: 2.0}, {}], [math.nan] * 3))
    assert scores[0] == scores[1] > scores[2]


@DESCENTS
def test_features_of_an_example_that_collide_are_added_first(descent: str) -> None:
    """To the bit, they are one feature with the sum of their values; also where a feature is repeated."""
    one, other = keys_of_one_slot(BITS)
    apart = learned(batch_of([{one: 1.0, other: 0.5}] * 9, [1.0, -1.0, 1.0] * 3), bits=BITS, descent=descent)
    summed = learned(batch_of([{one: 1.5}] * 9, [1.0, -1.0, 1.0] * 3), bits=BITS, descent=descent)
    assert apart.digest() == summed.digest()


@DESCENTS
def test_values_that_cancel_out_teach_nothing(descent: str) -> None:
    """A sum of 0 leaves the weight of the slot as it was, and everything finite."""
    one, other = keys_of_one_slot(BITS)
    learner = learned(batch_of([{one: 1.0, other: -1.0}] * 4, [1.0] * 4), bits=BITS, descent=descent)
    assert learner.weights()[slot_of(one, BITS)] == 0.0
    assert learner.weights()[-1] > 0.0


def test_a_large_table_is_a_linear_model_of_the_features() -> None:
    """Without collisions the hash makes no difference: keys that are hashed otherwise give the same scores."""
    rows = drawn_rows(200, 1)
    labels = drawn_labels(rows, "logistic")
    renamed = dict(zip(key_range(40).tolist(), np.random.default_rng(5).integers(1, 1 << 63, 40).tolist(), strict=True))
    others = [{renamed[key]: x for key, x in row.items()} for row in rows]
    one, other = (
        predictions(learned(batch, bits=20), batch) for batch in (batch_of(rows, labels), batch_of(others, labels))
    )
    assert np.array_equal(one, other)


@pytest.mark.parametrize("value", [2.0**-60, 1e-30, 2.0**59])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@DESCENTS
def test_extreme_values_give_finite_scores(descent: str, loss: str, value: float) -> None:
    """Of the smallest and the largest values, within the bounds of scores."""
    rows = [{3: value, 4: -value, 5: 1.0}, {3: value, 4: value}, {4: 1.0}] * 50
    labels = [1.0, -1.0, 1.0] * 50
    weights = [1e9, 1e-9, 1.0] * 50
    batch = batch_of(rows, labels, weights)
    learner = learned(batch, bits=BITS, loss=loss, descent=descent, l1=1e-3, l2=1e-3)
    assert np.isfinite(learner.weights()).all()
    bound = 50.0 if loss == "logistic" else 1.0
    assert np.abs(predictions(learner, batch)).max() <= bound


def test_scores_of_the_squared_loss_stay_within_the_labels() -> None:
    """Whatever the features, a score lies between the smallest and the largest of 0 and the labels so far."""
    learner = learned(batch_of([{1: 1.0}, {1: -1.0}], [3.0, -2.0]), bits=BITS, loss="squared")
    assert predictions(learner, batch_of([{1: 1e6}, {1: -1e6}], [math.nan] * 2)).tolist() == [3.0, -2.0]


def test_what_exceeds_the_most_features_is_left_out() -> None:
    """The constant and the first features are learned; the example is counted."""
    row = dict.fromkeys(key_range(10).tolist(), 1.0)
    learner = learned(batch_of([row] * 2, [1.0, -1.0]), bits=16, max_features_per_example=4)
    assert learner.truncated == 2
    assert learner.features_per_example == 4.0
    first = [slot_of(key, 16) for key in list(row)[:3]]
    assert sorted(np.flatnonzero(learner.state.rows["slots"]["squares"][:-1])) == sorted(first)


def test_the_heaviest_slots_and_how_many_have_weights_are_described() -> None:
    """By weight times the largest value; no keys are known."""
    learner = HashedLearner(HashedOptions(bits=BITS))
    rows = [{11: 1.0, 12: 0.1}] * 20
    learner.learn(batch_of(rows, [1.0, 1.0, 1.0, -1.0] * 5), 0, 20, Scores.empty(20))
    term = learner.find(1).heaviest[0]
    assert (term.factors, term.unknown) == ((), 1)
    assert term.weight in learner.weights()
    assert learner.census().monomials.tolist() == [1, 2]


def test_an_explanation_names_the_features() -> None:
    """Each with its own key and value, even if it shares its weight."""
    one, other = keys_of_one_slot(BITS)
    learner = learned(batch_of([{one: 1.0, other: 0.5}] * 9, [1.0] * 9), bits=BITS)
    (found,) = learner.explain(batch_of([{one: 1.0, other: 0.25}], [math.nan]))
    expected = [((), 1.0), ((Factor(one),), 1.0), ((Factor(other),), 0.25)]
    assert [(term.factors, term.value) for term in found.terms] == expected
    assert found.terms[1].weight == found.terms[2].weight
    assert found.score == pytest.approx(sum(term.weight * term.value for term in found.terms), abs=1e-9)
