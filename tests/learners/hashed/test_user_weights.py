"""With `personalise`, users have weights of their own in addition to the shared ones."""

import math

import numpy as np
import pytest
from learners.hashed.rows import Row, batch_of, drawn_labels, drawn_rows, learned, predictions, slot_of

from stream_apple.core.batch import space_key
from stream_apple.learners.hashed.learner import HashedLearner
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.scores import Scores

BITS = 20
USERS = [1001, 1002, 1003]
SPACES = dict.fromkeys(USERS, space_key("user"))
_MASK = (1 << 64) - 1


def _of_users(rows: list[Row], value: float = 1.0) -> list[Row]:
    return [{**row, USERS[number % 2]: value} for number, row in enumerate(rows)]


@pytest.mark.parametrize("descent", ["adaptive", "plain"])
def test_products_are_those_that_a_producer_could_send(descent: str) -> None:
    """To the bit, it is the model of a stream whose records have the products of user and feature as features."""
    rows = drawn_rows(100, 0)
    labels = drawn_labels(rows, "logistic")
    mails = _of_users(rows, 0.5)
    explicit: list[Row] = [
        {**row, **{(user + key) & _MASK: float(np.float32(x)) * 0.5 for key, x in row.items() if key != user}}
        for row, user in zip(mails, [USERS[number % 2] for number in range(100)], strict=True)
    ]
    learner = learned(batch_of(mails, labels, spaces=SPACES), bits=BITS, descent=descent, personalise="user")
    other = learned(batch_of(explicit, labels), bits=BITS, descent=descent)
    assert learner.digest() == other.digest()


def test_users_who_differ_get_different_scores() -> None:
    """The same feature means the opposite to two users; a third, who is new, gets the shared score."""
    rows = _of_users([{5: 1.0}] * 100)
    labels = [1.0, -1.0] * 50
    learner = learned(batch_of(rows, labels, spaces=SPACES), bits=BITS, personalise="user")
    tested: list[Row] = [{5: 1.0, user: 1.0} for user in USERS]
    first, second, new = predictions(learner, batch_of(tested, [math.nan] * 3, spaces=SPACES))
    weights = learner.weights()
    assert first > 2.0
    assert second < -2.0
    assert new == pytest.approx(weights[-1] + weights[slot_of(5, BITS)])


def test_an_example_may_name_no_user_or_several() -> None:
    """Without a user there are only shared weights; with several, each user's."""
    key, (one, other, _) = 5, USERS
    rows: list[Row] = [{key: 1.0}, {key: 1.0, one: 1.0, other: 1.0}]
    learner = HashedLearner(HashedOptions(bits=BITS, personalise="user"))
    learner.learn(batch_of(rows, [1.0, 1.0], spaces=SPACES), 0, 2, Scores.empty(2))
    assert learner.features_per_example == (2 + 6) / 2
    slots = {slot_of(each & _MASK, BITS) for each in (key, one, other, one + key, other + key)}
    assert set(np.flatnonzero(learner.weights()[:-1])) == slots


def test_features_of_users_count_towards_the_most_features() -> None:
    """The last ones are left out."""
    row = dict.fromkeys((5, 6, 7, USERS[0]), 1.0)
    learner = learned(batch_of([row], [1.0], spaces=SPACES), bits=BITS, personalise="user", max_features_per_example=7)
    assert learner.truncated == 1
    assert learner.features_per_example == 7.0


def test_products_that_are_too_large_are_left_out() -> None:
    """The score stays finite."""
    row: Row = {5: 2.0**50, USERS[0]: 2.0**50}
    learner = learned(batch_of([row] * 3, [1.0] * 3, spaces=SPACES), bits=BITS, personalise="user")
    assert learner.features_per_example == 3.0


def test_an_explanation_has_the_products_of_the_user() -> None:
    """Factors are the keys of user and feature, ascending."""
    rows = _of_users([{5: 2.0}] * 20)
    learner = learned(batch_of(rows, [1.0, -1.0] * 10, spaces=SPACES), bits=BITS, personalise="user")
    (found,) = learner.explain(batch_of([{5: 2.0, USERS[0]: 0.5}], [math.nan], spaces=SPACES))
    keys = [tuple(factor.key for factor in term.factors) for term in found.terms]
    assert keys == [(), (5,), (USERS[0],), (5, USERS[0])]
    assert [term.value for term in found.terms] == [1.0, 2.0, 0.5, 1.0]
    assert found.score == pytest.approx(sum(term.weight * term.value for term in found.terms), abs=1e-9)


def test_a_batch_without_namespaces_is_refused() -> None:
    """The caller did not ask for the columns that the options want."""
    assert HashedOptions(personalise="user").wanted_columns() == {"spaces"}
    assert HashedOptions().wanted_columns() == set()
    with pytest.raises(AssertionError, match="expected a batch with spaces"):
        learned(batch_of([{5: 1.0}], [1.0]), bits=BITS, personalise="user")
