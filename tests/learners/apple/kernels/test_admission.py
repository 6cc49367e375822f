"""Which monomials are given slots, against plain Python."""

import numpy as np
import pytest
from learners.apple.test_learner import Row, batch_of, key, monomial_key, planted_rows
from numpy.typing import NDArray
from support.bare_options import bare

from stream_apple.core.jit import kernel
from stream_apple.learners.apple.growth import FEWEST_EXAMPLES
from stream_apple.learners.apple.kernels import admission
from stream_apple.learners.apple.kernels.admission import ALL_VOTE_BEFORE, SAMPLED_VOTES
from stream_apple.learners.apple.kernels.vote_lanes import OWN_VOTE, VOTES_TO_PASS
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.state.table import Index
from stream_apple.learners.apple.state.work import LANES, Products, empty_products
from stream_apple.learners.scores import Scores


@kernel
def _asks(admission_filter: NDArray[np.uint8], at: Index, product: Index, votes: int = 1) -> bool:
    """What kernels call can't be called from here."""
    return admission.is_ahead(admission_filter, at, product, np.uint8(votes))


@kernel
def _ask_together(
    admission_filter: NDArray[np.uint8], products: Products, first: Index, asking: Index, votes: int
) -> Index:
    """The same."""
    return admission.vote(admission_filter, products, first, asking, np.uint8(votes))


class Vote:
    """Boyer and Moore's majority vote, in which an own vote counts four times, and a new candidate begins with one."""

    def __init__(self) -> None:
        self.candidate, self.ahead = -1, 0

    def asks(self, mark: int) -> bool:
        """Whether it passes."""
        if self.ahead and self.candidate == mark:
            self.ahead += 4
        elif self.ahead > 1:
            self.ahead -= 1
        else:
            self.candidate, self.ahead = mark, 4
        if self.ahead < 48:
            return False
        self.ahead = 0
        return True


@pytest.mark.parametrize("marks", [1, 2, 3, 20])
def test_a_product_passes_when_it_is_ahead(marks: int) -> None:
    """Two bytes a bucket vote as plain Python does, whoever asks in whatever order; other buckets are left alone."""
    rng = np.random.default_rng(marks)
    known = rng.choice(256, marks, replace=False)
    popular = rng.dirichlet(np.full(marks, 0.3))
    votes, passed = np.full(6, 77, np.uint8), 0
    votes[2:4] = 0
    vote = Vote()
    for mark in rng.choice(known, 5000, p=popular).tolist():
        product = np.uint64((mark << 56) | int(rng.integers(0, 1 << 56)))
        expected = vote.asks(mark)
        passed += expected
        assert bool(_asks(votes, np.uint64(2), product)) == expected
        assert votes[[0, 1, 4, 5]].tolist() == [77] * 4
    assert passed > 0


@pytest.mark.parametrize("votes", [1, 2])
@pytest.mark.parametrize("buckets", [4, 8192])
def test_eight_products_vote_as_one_after_another(buckets: int, votes: int) -> None:
    """Some of them, in the same bucket or in others; whoever does not vote changes nothing, wherever its place is."""
    rng = np.random.default_rng(buckets + votes)
    together, apart = np.zeros(2 * buckets, np.uint8), np.zeros(2 * buckets, np.uint8)
    products, passed, shared = empty_products(40), 0, 0
    often = rng.integers(0, buckets, 12)
    for _ in range(2000):
        first, asking = int(rng.integers(0, 20)), int(rng.integers(0, 256))
        chosen = np.where(rng.random(LANES) < 0.5, rng.choice(often, LANES), rng.integers(0, buckets, LANES))
        keys = (chosen.astype(np.uint64) << np.uint64(8)) | (rng.integers(0, 2, LANES, np.uint64) << np.uint64(56))
        places = 8 * chosen + rng.integers(0, 2, LANES)
        lanes = [lane for lane in range(LANES) if asking >> lane & 1]
        places[[lane for lane in range(LANES) if lane not in lanes]] = 8 * buckets
        products.key[first : first + LANES], products.place[first : first + LANES] = keys, places
        expected = sum(int(_asks(apart, np.uint64(2 * chosen[lane]), keys[lane], votes)) << lane for lane in lanes)
        found = int(_ask_together(together, products, np.uint64(first), np.uint64(asking), votes))
        assert found == expected
        assert np.array_equal(together, apart)
        passed += found > 0
        shared += len(set(chosen[lanes].tolist())) < len(lanes)
    assert passed > 0
    assert 0 < shared < 2000


def test_products_that_are_equally_frequent_all_pass() -> None:
    """Taking turns in one bucket, each passes in the end; with votes that count alike they would block each other."""
    for together in (2, 3):
        votes, asked, passed = np.zeros(2, np.uint8), 0, set[int]()
        while len(passed) < together:
            mark = asked % together
            asked += 1
            assert asked < 200
            if mark not in passed and _asks(votes, np.uint64(0), np.uint64(mark << 56)):
                passed.add(mark)


def test_those_seen_once_do_not_pass() -> None:
    """Neither do they let a frequent one wait for ever, as long as they are fewer than four for each of its votes."""
    votes, passed = np.zeros(2, np.uint8), list[int]()
    for asked in range(400):
        mark = 255 if asked % 4 == 0 else asked % 255
        if _asks(votes, np.uint64(0), np.uint64(mark << 56)):
            passed.append(mark)
    assert passed
    assert set(passed) == {255}


def learn(learner: Learner, rows: list[Row]) -> None:
    """All of them, without an epoch's end."""
    learner.learn(batch_of(rows), 0, len(rows), Scores.empty(len(rows)))


def has(learner: Learner, *monomial: str) -> bool:
    """Whether it has a slot."""
    return monomial_key(monomial) in learner.slots()["key"].tolist()


def test_base_features_come_at_once_and_products_when_they_are_frequent() -> None:
    """One that every example has is a feature when all its votes are its own; one that is seen less often waits."""
    learner = Learner(bare(bits=18))
    learn(learner, [Row({"a": 1.0, "b": 1.0}, 1.0, 1.0)])
    assert has(learner, "a")
    assert has(learner, "b")
    learn(learner, [Row({"a": 1.0, "b": 1.0}, -1.0, 1.0)] * (FEWEST_EXAMPLES - 1))
    learner.end_epoch()
    assert learner.census().parents.tolist() == [1, 2]
    votes = int(VOTES_TO_PASS // OWN_VOTE)
    for sight in range(1, votes + 1):
        learn(learner, [Row({"a": 1.0, "b": 1.0}, 1.0, 1.0)])
        # Both parents ask for a*b, so that it comes twice as fast as a*a and b*b.
        assert has(learner, "a", "b") == (2 * sight >= votes)
        assert has(learner, "a", "a") == has(learner, "b", "b") == (sight >= votes)
    learn(learner, [Row({"a": 1.0, "c": 1.0}, 1.0, 1.0)] * (votes - 1))
    assert has(learner, "c")
    assert not has(learner, "a", "c")


def test_votes_are_sampled_when_a_model_is_no_longer_young() -> None:
    """Before, all ask; then they ask in the examples whose number lies so by the golden ratio, with two votes each."""
    learner, row = Learner(bare(bits=18)), Row({"a": 1.0, "b": 1.0}, 1.0, 1.0)
    learn(learner, [row] * FEWEST_EXAMPLES)
    learner.end_epoch()
    learn(learner, [row] * (ALL_VOTE_BEFORE - FEWEST_EXAMPLES))
    assert has(learner, "a", "b")
    asked, needed = 0, int(VOTES_TO_PASS // (OWN_VOTE * SAMPLED_VOTES))
    for number in range(ALL_VOTE_BEFORE, ALL_VOTE_BEFORE + 10 * needed):
        before = learner.table.admission_filter.copy()
        learn(learner, [Row({"a": 1.0, "c": 1.0}, 1.0, 1.0)])
        asks = number * 0x9E3779B97F4A7C15 % 2**64 < 2**62
        asked += asks
        assert np.array_equal(learner.table.admission_filter, before) == (not asks or asked > needed)
        assert has(learner, "c")
        assert has(learner, "a", "c") == (asked >= needed)
    assert asked > needed


@pytest.mark.parametrize("period", [2, 3, 4, 5, 8, 16])
def test_no_period_of_a_stream_is_left_out(period: int) -> None:
    """Of every place in a period of examples one in four or so is sampled: none of them waits for ever."""
    numbers = np.arange(1 << 14, (1 << 14) + 1600 * period).reshape(-1, period)
    sampled = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) < np.uint64(1 << 62)
    assert np.abs(sampled.mean(axis=0) - 0.25).max() < 0.02


def test_without_a_mixture_all_are_admitted_at_once_where_there_is_room() -> None:
    """As before."""
    learner = Learner(bare(bits=18, mixture=False))
    row = Row({"a": 1.0, "b": 2.0}, 1.0, 1.0)
    learn(learner, [row])
    learner.end_epoch()
    learn(learner, [row])
    assert learner.deferred == 0
    assert all(has(learner, *monomial) for monomial in (("a",), ("b",), ("a", "a"), ("a", "b"), ("b", "b")))


@pytest.mark.parametrize("mixture", [True, False])
def test_a_full_bucket_takes_a_base_feature_that_asks_twice(mixture: bool) -> None:  # noqa: FBT001
    """With three times as many names as slots: each is let in when it is the last that has asked."""
    learner = Learner(bare(bits=8, mixture=mixture))
    rows = [Row({f"n{number}": 1.0}, 1.0, 1.0) for number in range(768)]
    learn(learner, rows)
    assert learner.occupied > 240
    before = learner.evicted
    late = f"n{next(n for n in range(767, 0, -1) if not has(learner, f'n{n}'))}"
    learn(learner, [Row({late: 1.0}, 1.0, 1.0)] * 2)
    assert has(learner, late)
    assert learner.evicted == before + 1


def test_a_newcomer_starts_afresh_in_the_slot_of_another() -> None:
    """Nothing of what the evicted one had learned is left, in the slot and in the companion."""
    learner = Learner(bare(bits=8))
    learn(learner, planted_rows(2000, seed=1, names=700))
    assert learner.evicted > 0
    slots = learner.slots()[:-1]
    names = {key(f"n{i}") for i in range(700)}
    assert set(slots["key"].tolist()) <= names
    before = {int(k) for k in slots["key"]}
    newcomer = next(f"n{i}" for i in range(700) if key(f"n{i}") not in before)
    learner.learn(batch_of([Row({newcomer: 3.0}, 1.0, 1.0)] * 2), 0, 1, Scores.empty(2))
    if not has(learner, newcomer):
        learner.learn(batch_of([Row({newcomer: 3.0}, 1.0, 1.0)] * 2), 0, 1, Scores.empty(2))
    (place,) = np.flatnonzero(learner.slots()["key"] == key(newcomer))
    owner, companion = learner.table.slots[place], learner.table.companions[place]
    assert owner["sights"] == 1
    assert owner["scale"] == 3.0
    assert owner["parent"] == 0
    # One step from zero: all weights lie in the same direction, the faster the further; the average is the weight.
    assert owner["average"] == owner["weight"]
    assert abs(companion["slow_linear"]) < abs(companion["linear_weight"])
    assert abs(owner["weight"]) < abs(owner["fast"])
