"""Monomials are taken apart into what they were made of."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learners.apple.test_learner import batch_of, key, monomial_key, planted_rows, run
from numpy.typing import NDArray
from support.oracles.learner import Oracle

from stream_apple.learners.apple.factorization import Factors, Product, places
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Method, Options
from stream_apple.learners.apple.state.table import PARENT
from stream_apple.learners.scores import Scores

METHODS: tuple[Method, ...] = ("apple", "linear", "quadratic", "cubic")


def learned(method: Method, bits: int = 14, seed: int = 3, names: int = 12, epochs: int = 12) -> Learner:
    """A learner with a past."""
    learner = Learner(Options(method=method, bits=bits))
    run(learner, batch_of(planted_rows(1200, seed=seed, names=names)), epochs)
    return learner


def used(learner: Learner) -> NDArray[np.void]:
    """Its slots that hold a monomial, the constant left out."""
    slots = learner.slots()[:-1]
    found: NDArray[np.void] = slots[slots["key"] != 0]
    return found


@pytest.mark.parametrize("method", METHODS)
def test_every_monomial_of_the_oracle_is_taken_apart(method: Method) -> None:
    """Each monomial that an implementation with readable ones has made is decomposed into exactly its factors."""
    rows = planted_rows(600, seed=3)
    learner, oracle = Learner(Options(method=method, bits=14, mixture=False)), Oracle(method, "squared")
    batch, scores = batch_of(rows), Scores.empty(600)
    for start in range(0, 600, 60):
        learner.learn(batch, start, start + 60, scores)
        for row in rows[start : start + 60]:
            oracle.learn(*row)
        learner.end_epoch()
        oracle.end_epoch()
    factors = Factors(learner.table)
    monomials = [monomial for monomial in oracle.apple.weight if monomial]
    for monomial in monomials:
        expected = Product(tuple(sorted(key(name) for name in monomial)), 0)
        assert factors.of(monomial_key(monomial), len(monomial)) == expected
    longest = {"apple": 3, "linear": 1, "quadratic": 2, "cubic": 3}[method]
    assert max(map(len, monomials)) >= longest
    if method != "linear":
        assert any(len(set(monomial)) < len(monomial) for monomial in monomials), "the test must see a square"


def test_a_lost_base_feature_leaves_a_gap_that_its_key_closes() -> None:
    """What was made with an evicted feature has an unknown factor, until the feature is known from elsewhere."""
    learner = learned("apple", epochs=2)
    table = learner.table
    products = [slot for slot in used(learner) if slot["degree"] > 1]

    def taken_apart(factors: Factors) -> list[Product]:
        return [factors.of(int(slot["key"]), int(slot["degree"])) for slot in products]

    before = taken_apart(Factors(table))
    bases = [slot for slot in used(learner) if slot["degree"] == 1 and not slot["parent"]]
    lost = next(int(slot["key"]) for slot in bases if any(int(slot["key"]) in each.bases for each in before))
    (place,) = places(table, np.array([lost], np.uint64))
    table.slots["key"][place] = 0
    table.tags.view(np.uint8)[place] = 0

    after = taken_apart(Factors(table))
    for whole, found in zip(before, after, strict=True):
        if lost in whole.bases:
            assert found.unknown > 0
        else:
            assert found == whole
    assert any(each.unknown for each in after)
    assert taken_apart(Factors(table, np.array([lost], np.uint64))) == before


@cache
def overflowing(bits: int) -> Learner:
    """A learner whose table may have been too small, which nobody changes."""
    return learned("apple", bits=bits, seed=5, names=30)


@given(st.lists(st.integers(1, 2**64 - 1), max_size=40), st.integers(8, 14))
def test_places_are_those_of_the_table(strangers: list[int], bits: int) -> None:
    """Every key of a table that has overflowed or not is found at its slot, and no other key is."""
    learner = overflowing(bits)
    slots = learner.slots()
    at = np.flatnonzero(slots["key"][:-1])
    own = slots["key"][at]
    assert places(learner.table, own).tolist() == at.tolist()
    absent = np.array([stranger for stranger in strangers if stranger not in set(own.tolist())], np.uint64)
    assert (places(learner.table, absent) == -1).all()


def test_offspring_is_what_a_walk_over_all_monomials_finds() -> None:
    """Sum, number and best of a parent's children equal those counted by hand."""
    learner = learned("apple", seed=9)
    factors, slots = Factors(learner.table), used(learner)
    by_key = {int(slot["key"]): slot for slot in slots}
    bases = [int(slot["key"]) for slot in slots if slot["degree"] == 1]
    parents = [int(slot["key"]) for slot in slots if slot["parent"] & PARENT]
    assert len(parents) > 10
    for parent in parents:
        children = [by_key[child] for base in bases if (child := (parent + base) % 2**64) in by_key]
        saliences = [abs(float(child["weight"])) * float(child["scale"]) for child in children]
        found = factors.offspring(parent)
        assert found.children == len(children)
        assert found.salience == pytest.approx(sum(saliences), rel=1e-5)
        if children:
            most = learner.table.slots[found.best]
            assert abs(float(most["weight"])) * float(most["scale"]) == pytest.approx(max(saliences), rel=1e-6)


@pytest.mark.parametrize("left", [8, 2, 0], ids=["has just ceased", "has nearly rested", "has rested"])
def test_products_of_one_that_is_no_parent_any_more(left: int) -> None:
    """They stay in the table, and are what they were made of, whether it rests or is a monomial like any other."""
    learner = learned("apple", seed=9)
    slots = learner.table.slots
    parents = np.flatnonzero((slots["parent"][:-1] & PARENT) != 0)
    products = [(int(slot["key"]), int(slot["degree"])) for slot in used(learner) if slot["degree"] > 1]
    before = Factors(learner.table)
    expected = [before.of(*product) for product in products]
    assert all(product.unknown == 0 for product in expected)
    assert max(len(product.bases) for product in expected) >= 3
    slots["parent"][parents[::2]] = left
    after = Factors(learner.table)
    assert [after.of(*product) for product in products] == expected
    slots["parent"][parents] = left
    after = Factors(learner.table)
    assert [after.of(*product) for product in products] == expected


def test_looking_among_all_monomials_ends_when_it_has_cost_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a large table full of what was made of lost features would keep a viewer waiting for minutes."""
    learner = learned("apple", seed=9)
    slots = learner.table.slots
    pairs = [int(slot["key"]) for slot in used(learner) if slot["degree"] == 2]
    features = sum(1 for slot in used(learner) if slot["degree"] == 1)
    (parents,) = np.nonzero((slots["parent"][:-1] & PARENT) != 0)
    slots["parent"][parents[:-1]] = 0
    monkeypatch.setattr("stream_apple.learners.apple.factorization._WIDE_LOOKUPS", 3 * features)
    found = Factors(learner.table)
    own = [found._best_of(pair, 2, found._by_degree[0]).unknown == 0 for pair in pairs]
    taken_apart = [found.of(pair, 2).unknown == 0 for pair in pairs]
    assert sum(taken_apart) == sum(own) + 3


def test_a_mixed_model_that_let_parents_go_is_taken_apart() -> None:
    """With a budget that growth must keep to, parents retire; all products still are of features that there are."""
    options = Options(bits=12, max_products=40)
    learner, retired = Learner(options), 0
    batch, scores = batch_of(planted_rows(3000, seed=3)), Scores.empty(3000)
    for start in range(0, 3000, 100):
        learner.learn(batch, start, start + 100, scores)
        retired += learner.end_epoch().retired
    factors = Factors(learner.table)
    products = [slot for slot in used(learner) if slot["degree"] > 1]
    assert retired > 0
    assert len(products) > 100
    for slot in products:
        product = factors.of(int(slot["key"]), int(slot["degree"]))
        assert product.unknown == 0
        assert sum(product.bases) % 2**64 == int(slot["key"])


def test_a_stranger_is_no_product() -> None:
    """A key that no parent and feature add up to has nothing but unknown factors."""
    assert Factors(learned("apple").table).of(12345, 3) == Product((), 3)
    assert Factors(Learner(Options(bits=8)).table).of(12345, 2) == Product((), 2)
