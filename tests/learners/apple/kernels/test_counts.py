"""Examples counted by label beside slots, against counts of which each is kept by hand."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from support.from_python import from_python

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.kernels.counts import information_of as information_of_routine
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Method, Options
from stream_apple.learners.apple.state.table import COUNTS, PARENT
from stream_apple.learners.scores import Scores

information_of = from_python(information_of_routine)

KEYS = np.random.default_rng(3).integers(1, 1 << 64, 12, np.uint64)
PRODUCTS = Options(method="apple", loss="logistic", combine="off", selection="mi", bits=16)


def examples(size: int, seed: int = 0, keys: np.ndarray = KEYS) -> Batch:
    """Of one to five of the features, some without a label, some of no weight."""
    rng = np.random.default_rng(seed)
    rows = [rng.choice(keys, rng.integers(1, 6), replace=False) for _ in range(size)]
    labels = rng.choice([-1.0, 1.0, math.nan], size, p=[0.3, 0.6, 0.1])
    return Batch(
        np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64),
        np.concatenate(rows),
        np.ones(sum(len(row) for row in rows), np.float32),
        labels,
        rng.choice([0.0, 1.0, 2.5], size, p=[0.1, 0.6, 0.3]),
    )


def monomials(keys: np.ndarray, highest: int) -> dict[int, int]:
    """Key -> how many different features it is the product of, 0 if one is in it twice; the constant has none."""
    found = {0: 0}
    for degree in range(1, highest + 1):
        for chosen in itertools.combinations_with_replacement(keys.tolist(), degree):
            found[sum(chosen) % (1 << 64)] = degree if len(set(chosen)) == degree else 0
    return found


def followed(options: Options, batch: Batch, highest: int, *, epochs: tuple[int, ...] = ()) -> Iterator[Learner]:
    """Learn example by example; after each all counts are as they should be."""
    learner, scores = Learner(options), Scores.empty(len(batch.labels))
    owners = np.zeros(learner.capacity, np.uint64)
    expected = np.zeros((learner.capacity + 1, 2))
    for row, label in enumerate(batch.labels):
        if row in epochs:
            learner.end_epoch()
        learner.learn(batch, row, row + 1, scores)
        counts, slots = learner.table.counts, learner.table.slots
        expected[:-1][owners != slots["key"][:-1]] = 0.0
        owners = slots["key"][:-1].copy()
        present = monomials(batch.keys[batch.indptr[row] : batch.indptr[row + 1]], highest)
        if not math.isnan(label):
            there = [*np.flatnonzero((owners != 0) & np.isin(owners, np.array([*present], np.uint64))), -1]
            expected[there, int(label < 0)] += batch.weights[row]
            if batch.weights[row]:
                for place in there[:-1]:
                    if slots["degree"][place] <= 2 or options.method != "apple":
                        assert counts["order"][place] == present[int(owners[place])]
        assert np.array_equal(counts["positive"], expected[:, 0])
        assert np.array_equal(counts["negative"], expected[:, 1])
        assert np.array_equal(counts["attributes"][:-1], owners)  # each feature is an attribute of its own
        yield learner


@pytest.mark.parametrize(("method", "degree"), [("quadratic", 2), ("cubic", 3), ("apple", 4)])
def test_examples_are_counted_by_label_from_the_first_on(method: Method, degree: int) -> None:
    """With room for all: of products, of squares and of the constant."""
    options = replace(PRODUCTS, method=method)
    for learner in followed(options, examples(300), degree, epochs=(100, 150, 200, 250)):
        assert not learner.evicted
    assert learner.table.counts["positive"].max() == learner.table.counts["positive"][-1] > 200
    assert learner.census().monomials[degree] > 5


@pytest.mark.parametrize(("method", "degree"), [("quadratic", 2), ("apple", 4)])
def test_a_slot_that_changes_hands_begins_at_0(method: Method, degree: int) -> None:
    """In a table that is too small."""
    keys = np.random.default_rng(4).integers(1, 1 << 64, 60, np.uint64)
    options = replace(PRODUCTS, method=method, bits=8)
    *_, learner = followed(options, examples(400, 1, keys), degree, epochs=(100, 200, 300))
    assert learner.evicted > 5


@pytest.mark.parametrize("combine", ["mix", "off"])
def test_batches_may_be_cut_anywhere(combine: str) -> None:
    """The counts are part of the digest, and a model that is written and read back goes on as if it had not been."""
    batch, digests = examples(200), set()
    options = Options(loss="logistic", combine="mix" if combine == "mix" else "off", selection="mi", bits=10)
    for step in (200, 50, 7):
        learner, scores = Learner(options), Scores.empty(200)
        for start in range(0, 200, step):
            learner.learn(batch, start, min(start + step, 200), scores)
        digests.add(learner.digest())
    assert len(digests) == 1
    learner.table.counts["positive"][-1] += 1
    assert learner.digest() not in digests


def counted(positive: float, negative: float) -> np.void:
    """One row of COUNTS."""
    owner: np.void = np.zeros(1, COUNTS)[0]
    owner["positive"], owner["negative"] = positive, negative
    return owner


def test_information_of_an_exclusive_or_is_in_the_pair_alone() -> None:
    """Of two fair bits whose exclusive or is the label: singles have none, the four pairs sum to log 2."""
    totals = counted(200, 200)
    assert information_of(counted(100, 100), totals) == 0.0
    pair = [information_of(counted(*both), totals) for both in ((0, 100), (100, 0), (100, 0), (0, 100))]
    assert sum(pair) == pytest.approx(math.log(2), abs=1e-12)


def test_summands_are_those_of_the_mutual_information() -> None:
    """Against the definition, over a table of 7 values and 2 labels; labels and values may change names."""
    both = np.random.default_rng(0).integers(0, 50, (7, 2)).astype(float)
    both[3] = [0, 17]
    joint = both / both.sum()
    independent = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    defined = float(np.sum(joint[joint > 0] * np.log((joint / independent)[joint > 0])))
    for table in (both, both[:, ::-1], both[::-1], 3.5 * both):
        totals = counted(*table.sum(0))
        summands = [information_of(counted(*row), totals) for row in table]
        assert min(summands) >= 0.0
        assert sum(summands) == pytest.approx(defined, rel=1e-12)


@pytest.mark.parametrize("weight", [5e-324, 1e-320, 1e-310, 1e-300])
def test_a_label_of_next_to_no_weight_tells_nothing(weight: float) -> None:
    """Its summand is below what a number can be, never infinite or no number."""
    for both, totals in (
        ((0.0, weight), (1.0, weight)),
        ((weight, 1e12), (weight, 1e12)),
        ((weight, 0.0), (weight, 3)),
    ):
        assert 0.0 <= information_of(counted(*both), counted(*totals)) < 1e-290


def test_a_planted_irrelevant_attribute_is_last() -> None:
    """By the sums over its values, as they are counted by a learner; and none of its values grows before the others."""
    rng = np.random.default_rng(5)
    size, strengths = 6000, (0.95, 0.8, 0.65, 0.5)
    labels = np.where(rng.random(size) < 0.5, 1.0, -1.0)
    agree = rng.random((size, len(strengths))) < strengths
    values = np.where(agree, labels[:, None] > 0, labels[:, None] < 0).astype(int)
    keys = rng.integers(1, 1 << 62, (len(strengths), 2), np.uint64)
    present = np.stack([keys[attribute, values[:, attribute]] for attribute in range(len(strengths))], axis=1)
    batch = Batch(
        np.arange(0, 4 * size + 1, 4), present.ravel(), np.ones(4 * size, np.float32), labels, np.ones(size)
    )  # fmt: skip
    options = replace(PRODUCTS, parents=1.5, alpha=1.0)  # six parents
    learner = Learner(options)
    learner.learn(batch, 0, size, Scores.empty(size))
    table = learner.table
    told = {
        int(owner): information_of(row, table.counts[-1])
        for owner, row in zip(table.slots["key"][:-1], table.counts[:-1], strict=True)
    }
    by_attribute = [sum(told[int(value)] for value in each) for each in keys]
    assert by_attribute == sorted(by_attribute, reverse=True)
    assert by_attribute[-1] < 0.001
    assert by_attribute[-2] > 0.03
    learner.end_epoch()
    parents = set(table.slots["key"][:-1][table.slots["parent"][:-1] == PARENT].tolist())
    assert parents == {*keys[:3].ravel().tolist()}
