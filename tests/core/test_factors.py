"""Monomials are taken apart into what they were made of."""

import numpy as np
import pytest
from core.test_learner import batch_of, key, monomial_key, planted_rows, run
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracle import Oracle

from stream_apple.core.factors import Factors, Product, places
from stream_apple.core.learner import Learner, Method, Options, Scores

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
    learner, oracle = Learner(Options(method=method, bits=14)), Oracle(method, "squared")
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


@given(st.lists(st.integers(1, 2**64 - 1), max_size=40), st.integers(4, 14))
def test_places_are_those_of_the_table(strangers: list[int], bits: int) -> None:
    """Every key of a table that has overflowed or not is found at its slot, and no other key is."""
    learner = learned("apple", bits=bits, seed=5, names=30)
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
    parents = [int(slot["key"]) for slot in slots if slot["parent"]]
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


def test_a_stranger_is_no_product() -> None:
    """A key that no parent and feature add up to has nothing but unknown factors."""
    assert Factors(learned("apple").table).of(12345, 3) == Product((), 3)
    assert Factors(Learner(Options(bits=4)).table).of(12345, 2) == Product((), 2)
