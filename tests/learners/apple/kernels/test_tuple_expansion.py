"""The features of method tuples, against all combinations written out, and against a linear learner given them."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.apple.categories import (
    Case,
    Features,
    attribute_of,
    batch_of_cases,
    cases_of_codes,
    key_of_name,
    sum_of_keys,
)
from support.from_python import from_python

from stream_apple.core.batch import ALONE, Batch
from stream_apple.learners.apple.kernels.tuple_expansion import holds as holds_routine
from stream_apple.learners.apple.kernels.tuple_expansion import set_of
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.model import FEATURES, TRUNCATED
from stream_apple.learners.scores import Scores

holds = from_python(holds_routine)

NAMES = [f"{attribute}={value}" for attribute in "abcde" for value in range(3)] + ["f", "g"]
EXAMPLES = st.lists(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([1.0, 1.0, -2.5, 0.5])), max_size=9),
    min_size=1,
    max_size=8,
)


def written_out(features: Features, order: int) -> dict[tuple[str, ...], float]:
    """The example's features, as sorted names, and their values: base features, and products of `order` of them."""
    found: dict[tuple[str, ...], float] = {}
    for size in {1, order}:
        for chosen in itertools.combinations(features, size):
            names = [name for name, _ in chosen]
            if len({attribute_of(name) for name in names}) == size:
                value = np.float32(1.0)
                for _, factor in chosen:
                    value = np.float32(value * np.float32(factor))
                found.setdefault(tuple(sorted(names)), float(value))
    return found


def learn(learner: Learner, batch: Batch) -> Scores:
    """All rows."""
    scores = Scores.empty(len(batch.labels))
    learner.learn(batch, 0, len(batch.labels), scores)
    return scores


@settings(deadline=None, max_examples=150)
@given(examples=EXAMPLES, order=st.integers(1, 4))
def test_features_are_all_combinations(examples: list[list[tuple[str, float]]], order: int) -> None:
    """Base features and products of exactly n different attributes; twice a name, or two values of an attribute."""
    cases = [Case(features, 1.0 if at % 2 else -1.0) for at, features in enumerate(examples)]
    learner = Learner(
        Options(method="tuples", loss="logistic", order=order, selection_share=0.5 if order > 1 else 1.0, bits=16)
    )
    expected: dict[int, float] = {}
    attributes: dict[int, int] = {}
    number = 0
    for case in cases:
        learn(learner, batch_of_cases([case]))
        for names, value in written_out(case.features, order).items():
            key = sum_of_keys(names)
            expected[key] = max(expected.get(key, 0.0), abs(value))
            attributes[key] = sum_of_keys([attribute_of(name) for name in names])
            number += 1
    slots = learner.table.slots[:-1]
    taken = slots["key"] != 0
    assert dict(zip(slots["key"][taken].tolist(), slots["scale"][taken].tolist(), strict=True)) == expected
    assert learner.sums["counts"][FEATURES] == number + len(cases)
    assert not slots["active"].any()
    if order > 1:
        counts = learner.table.counts[:-1]
        assert dict(zip(slots["key"][taken].tolist(), counts["attributes"][taken].tolist(), strict=True)) == attributes
        positive = sum(case.label > 0 for case in cases)
        assert learner.table.counts[-1]["positive"] == positive
    else:
        assert not len(learner.table.counts)


def planted(size: int, seed: int = 4) -> list[Case]:
    """Six attributes; the label goes by two pairs of them."""
    codes = np.random.default_rng(seed).integers(0, 4, (size, 6))
    return cases_of_codes(codes, (codes[:, 0] == codes[:, 1]) ^ (codes[:, 2] == codes[:, 3]))


def as_linear(batch: Batch, tuples: Sequence[tuple[int, ...]]) -> Batch:
    """The same examples of six attributes, with the products of these tuples of them given as features."""
    keys = batch.keys.reshape(-1, 6)
    products = [keys[:, list(each)].sum(axis=1, dtype=np.uint64) for each in tuples]
    whole = np.column_stack([keys, *products])
    return Batch(
        np.arange(len(keys) + 1, dtype=np.int64) * whole.shape[1],
        whole.ravel(),
        np.ones(whole.size, np.float32),
        batch.labels,
        batch.weights,
    )


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_it_is_linear_in_the_products(order: int, loss: str) -> None:
    """Scores are those of a linear learner that is given the products as features, to the bit; linear's are its own."""
    batch = batch_of_cases(planted(400))
    options = Options(method="tuples", order=order, loss=loss, bits=18)  # type: ignore[arg-type]
    tuples = list(itertools.combinations(range(6), order)) if order > 1 else []
    found = learn(Learner(options), batch)
    expected = learn(Learner(Options(method="linear", loss=loss, bits=18)), as_linear(batch, tuples))  # type: ignore[arg-type]
    assert np.array_equal(found.predictions, expected.predictions)
    alone = learn(Learner(Options(method="linear", loss=loss, bits=18)), batch)  # type: ignore[arg-type]
    assert np.array_equal(found.linear, alone.predictions)


@pytest.mark.parametrize("selection", ["mi", "cv"])
def test_after_a_selection_only_its_products(selection: str) -> None:
    """What was selected goes on as if there had never been anything to select from, given the same weights."""
    batch = batch_of_cases(planted(3000))
    learner = Learner(Options(method="tuples", loss="logistic", selection=selection, selection_share=0.3, bits=18))  # type: ignore[arg-type]
    scores = Scores.empty(3000)
    learner.learn(batch, 0, 1500, scores)
    assert learner.end_epoch().tuples == (5, 10)
    attributes = {sum_of_keys([f"a{at}" for at in pair]): pair for pair in itertools.combinations(range(6), 2)}
    chosen = sorted(attributes[key] for key in learner.selection.chosen.tolist())
    assert {(0, 1), (2, 3)} <= set(chosen)
    learner.learn(batch, 1500, 3000, scores)
    # A linear learner sees all products in the first half, and those that were selected in the second.
    linear, expected = Learner(Options(method="linear", loss="logistic", bits=18)), Scores.empty(3000)
    linear.learn(as_linear(batch, list(itertools.combinations(range(6), 2))), 0, 1500, expected)
    linear.learn(as_linear(batch, chosen), 1500, 3000, expected)
    assert np.array_equal(scores.predictions, expected.predictions)


def test_an_attribute_that_comes_later_is_explored() -> None:
    """Its tuples are learned at once, the losers' are not, and the next end of an epoch selects among all."""
    cases = planted(1200)
    learner = Learner(Options(method="tuples", loss="logistic", selection_share=0.3, bits=18))
    learner.selection.fewest = 200
    first, second = cases[:400], [Case([*case.features, ("new=0", 1.0)], case.label) for case in cases[400:800]]
    learn(learner, batch_of_cases(first))
    learner.end_epoch()
    chosen = set(learner.selection.chosen.tolist())
    learn(learner, batch_of_cases(second))
    slots, counts = learner.table.slots[:-1], learner.table.counts[:-1]
    pairs = set(counts["attributes"][(slots["degree"] == 2) & (slots["key"] != 0)].tolist())
    assert pairs == chosen | {sum_of_keys(["new", f"a{at}"]) for at in range(6)}
    learner.end_epoch()
    assert learner.selection.seen == 15 + 6
    assert len(learner.selection.chosen) == 7  # 0.3 * 21, rounded up


def test_what_is_a_product_already_is_not_multiplied() -> None:
    """Features of role ALONE, which come last, are features and join no tuple."""
    batch = batch_of_cases([Case([("a=1", 1.0), ("b=1", 1.0), ("ab=1", 1.0)], 1.0)])
    learner = Learner(Options(method="tuples", loss="logistic", bits=10))
    learn(learner, batch._replace(roles=np.array([0, 0, ALONE], np.uint8)))
    slots = learner.table.slots[:-1]
    expected = {key_of_name("a=1"), key_of_name("b=1"), key_of_name("ab=1"), sum_of_keys(["a=1", "b=1"])}
    assert set(slots["key"][slots["key"] != 0].tolist()) == expected
    assert not slots["parent"].any()


def test_unknown_attributes_are_attributes_of_their_own() -> None:
    """Packed features have none, and so have batches that come without: each is a tuple's element by itself."""
    batch = batch_of_cases([Case([("a=1", 1.0), ("a=2", 1.0), ("b=1", 1.0)], 1.0)])
    for attributes in (batch.attributes[:0], np.zeros(3, np.uint64)):
        learner = Learner(Options(method="tuples", loss="logistic", selection_share=0.5, bits=10))
        learn(learner, batch._replace(attributes=attributes))
        slots = learner.table.slots[:-1]
        taken = slots["key"] != 0
        assert np.count_nonzero(slots["degree"][taken] == 2) == 3
        assert np.array_equal(learner.table.counts["attributes"][:-1][taken], slots["key"][taken])


def test_the_budget_bounds_an_example() -> None:
    """Expansion stops before the feature whose products no longer fit, and that is counted."""
    cases = [Case([(f"a{at}", 1.0) for at in range(100)], 1.0)]
    learner = Learner(Options(method="tuples", loss="logistic", order=3, max_features_per_example=300, bits=12))
    learn(learner, batch_of_cases(cases))
    assert learner.truncated == 1
    assert learner.sums["counts"][FEATURES] <= 301
    assert learner.sums["counts"][TRUNCATED] == 1


@given(keys=st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 40), max_size=60), others=st.sets(st.integers(0, 99)))
def test_a_set_holds_what_was_put_in(keys: set[int], others: set[int]) -> None:
    """And nothing else; keys that meet in one place, and 0, which stands with 1."""
    chosen = set_of(np.array(sorted(keys), np.uint64))
    inside = {max(key, 1) for key in keys}
    for key in keys | others:
        assert holds(chosen, np.uint64(key)) == (max(key, 1) in inside)
