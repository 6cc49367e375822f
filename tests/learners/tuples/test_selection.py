"""Which tuples are selected: scores against their definition, and what a selection leaves out."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from learners.batches import batch_of, learn_all, scores_of
from learners.tuples.codes import coded_batch, drawn_codes, tuple_key, tuple_keys, tuple_learner
from numpy.typing import NDArray

from stream_apple.learners.tuples.learner import TupleLearner
from stream_apple.learners.tuples.selection import information


def information_by_tuple(learner: TupleLearner, order: int) -> dict[int, float]:
    """Return the mutual information of each tuple with the label, by the tuple's key."""
    slots = learner.state.rows["slots"]
    totals, features = slots[-1], slots[slots["degree"] == order]
    tuples, of_feature = np.unique(features["attributes"], return_inverse=True)
    found = information(
        np.array([features["positive"], features["negative"]]),
        of_feature,
        np.array([totals["positive"], totals["negative"]]),
    )
    return dict(zip(tuples.tolist(), found, strict=True))


def defined_information(codes: NDArray[np.int64], positive: NDArray[np.bool_], attributes: tuple[int, ...]) -> float:
    """Return I(T; Y) by its definition, in nats."""
    rows, labels, size = [tuple(row) for row in codes[:, list(attributes)].tolist()], positive.tolist(), len(codes)
    joint, alone, classes = Counter(zip(rows, labels, strict=True)), Counter(rows), Counter(labels)
    return sum(n / size * math.log(n * size / (alone[row] * classes[label])) for (row, label), n in joint.items())


def chosen(learner: TupleLearner) -> list[int]:
    """Return the keys of the selected tuples, ascending."""
    return [int(key) for key in learner.state.sums["chosen"]]


def degrees(learner: TupleLearner) -> Counter[int]:
    """Return how many features there are of each degree."""
    slots = learner.state.rows["slots"][:-1]
    return Counter(slots["degree"][slots["key"] != 0].tolist())


class TestInformation:
    """Mutual information of tuples and the label."""

    @pytest.mark.parametrize("order", [2, 3])
    def test_it_equals_its_definition(self, order: int) -> None:
        """For every tuple of four attributes."""
        codes = drawn_codes(700, [2, 3, 5, 4], 1)
        positive = (codes[:, 0] + codes[:, 1] + drawn_codes(700, [2], 2)[:, 0]) % 3 > 0
        learner = tuple_learner(order=order)
        learn_all(learner, coded_batch(codes, positive))
        expected = {
            tuple_key(*each): defined_information(codes, positive, each)
            for each in itertools.combinations(range(4), order)
        }
        assert information_by_tuple(learner, order) == pytest.approx(expected, abs=1e-12)

    def test_an_exclusive_or_shows_in_pairs_only(self) -> None:
        """Of two fair bits each says nothing, and both together ln 2."""
        codes = np.array(list(itertools.product([0, 1], repeat=2)) * 300)
        learner = tuple_learner()
        learn_all(learner, coded_batch(codes, codes[:, 0] != codes[:, 1]))
        assert list(information_by_tuple(learner, 1).values()) == pytest.approx([0.0, 0.0], abs=1e-12)
        assert list(information_by_tuple(learner, 2).values()) == pytest.approx([math.log(2)], abs=1e-12)

    def test_absence_is_a_value(self) -> None:
        """Examples in which an attribute is absent count as one more value of its tuples."""
        codes = drawn_codes(800, [2, 2, 2], 6)
        positive = (codes[:, 0] & codes[:, 1]) > 0
        names = [[f"a{at}" for at in np.flatnonzero(row)] for row in codes]
        ones = np.ones(int(codes.sum()), np.float32)
        learner = tuple_learner()
        learn_all(learner, batch_of(names, ones, np.where(positive, 1.0, -1.0), np.ones(800)))
        both = (codes[:, [0]] & codes[:, [1]]).astype(np.int64)
        expected = defined_information(both, positive, (0,))
        assert information_by_tuple(learner, 2)[tuple_key(0, 1)] == pytest.approx(expected, abs=1e-12)


class TestSelection:
    """What the end of an epoch keeps and leaves out."""

    @pytest.mark.parametrize("selection", ["mi", "cv"])
    @pytest.mark.parametrize("warm_start", ["none", "naive_bayes"])
    def test_the_tuple_that_decides_is_kept(self, selection: str, warm_start: str) -> None:
        """An exclusive or of two of six attributes; the others, and all their pairs, say nothing."""
        codes = drawn_codes(2000, [2] * 6, 3)
        batch = coded_batch(codes, codes[:, 2] != codes[:, 4])
        learner = tuple_learner(selection=selection, selection_share=0.05, warm_start=warm_start)
        learn_all(learner, batch, (1500,))
        assert chosen(learner) == [tuple_key(2, 4)]
        assert degrees(learner) == {1: 12, 2: 4}
        wrong = (scores_of(learner, batch).predictions > 0.0) != (batch.labels > 0.0)
        assert wrong.mean() < 0.02

    def test_the_share_is_rounded_up(self) -> None:
        """Of 15 pairs, a share of 0.3 keeps 5; the tuples with the largest scores."""
        codes = drawn_codes(1500, [3] * 6, 4)
        learner = tuple_learner(selection_share=0.3)
        learn_all(learner, coded_batch(codes, codes[:, 0] + codes[:, 1] > 2))
        scores = information_by_tuple(learner, 2)
        learner.end_epoch()
        assert chosen(learner) == sorted(sorted(scores, key=lambda key: -scores[key])[:5])
        assert degrees(learner) == {1: 18, 2: 45}

    def test_what_is_left_out_never_comes_back(self) -> None:
        """Neither do attributes that come later join a tuple; their base features are learned."""
        codes = drawn_codes(1200, [3] * 4, 5)
        learner = tuple_learner(selection_share=0.5)
        learn_all(learner, coded_batch(codes, codes[:, 0] == codes[:, 1]))
        learner.end_epoch()
        kept = chosen(learner)
        wider = drawn_codes(1200, [3] * 5, 6)
        learn_all(learner, coded_batch(wider, wider[:, 0] == wider[:, 4]))
        learner.end_epoch()
        slots = learner.state.rows["slots"]
        assert chosen(learner) == kept
        assert set(slots["attributes"][slots["degree"] == 2].tolist()) == set(kept)
        assert degrees(learner)[1] == 15

    def test_a_share_of_1_selects_nothing(self) -> None:
        """Level by level or not, and by either score: the models are equal to the bit."""
        codes = drawn_codes(1500, [3] * 4, 7)
        digests = set()
        for given in ({}, {"hierarchical": True}, {"selection": "cv"}):
            learner = tuple_learner(order=3, **given)
            learn_all(learner, coded_batch(codes, codes[:, 0] == codes[:, 1]), (1100,))
            digests.add(learner.digest())
        assert len(digests) == 1

    def test_nothing_is_selected_from_too_few_examples(self) -> None:
        """Below 1,000 examples, and, with mi, as long as all labels are the same."""
        codes = drawn_codes(1500, [3] * 4, 8)
        young, same = tuple_learner(selection_share=0.5), tuple_learner(selection_share=0.5)
        learn_all(young, coded_batch(codes[:999], codes[:999, 0] > 1))
        learn_all(same, coded_batch(codes, codes[:, 0] >= 0))
        for learner in (young, same):
            assert learner.end_epoch().retired == 0
            assert chosen(learner) == []
            assert degrees(learner)[2] == 54

    def test_order_1_selects_attributes(self) -> None:
        """The features of the others are not learned any more."""
        codes = drawn_codes(1500, [3] * 4, 9)
        learner = tuple_learner(order=1, selection_share=0.25)
        learn_all(learner, coded_batch(codes, codes[:, 2] > 0), (1200,))
        assert chosen(learner) == [tuple_key(2)]
        assert degrees(learner) == {1: 3}

    def test_the_features_that_stay_keep_what_they_have_learned(self) -> None:
        """Their slots are the same but for the gain, wherever they lie now."""
        codes = drawn_codes(1300, [3] * 5, 10)
        learner = tuple_learner(selection="cv", selection_share=0.4, bits=8)
        learn_all(learner, coded_batch(codes, codes[:, 0] == codes[:, 1]))
        before = {owner["key"]: owner.copy() for owner in learner.state.rows["slots"][:-1] if owner["key"]}
        learner.end_epoch()
        after = [owner for owner in learner.state.rows["slots"][:-1] if owner["key"]]
        assert len(after) == 15 + 4 * 9
        for owner in after:
            assert owner["gain"] == 0.0
            assert list(owner)[:-1] == list(before[owner["key"]])[:-1]


class TestLevels:
    """Selection level by level: hsALR."""

    def test_a_tuple_is_a_candidate_if_all_smaller_ones_were_selected(self) -> None:
        """Three of five attributes decide; each level keeps tuples of the level before only."""
        codes = drawn_codes(6000, [3] * 5, 11)
        batch = coded_batch(codes, codes[:, 0] + codes[:, 1] + codes[:, 2] > 3)
        learner = tuple_learner(order=3, hierarchical=True, selection_share=0.6)
        learn_all(learner, batch.rows(0, 1500))
        assert set(degrees(learner)) == {1}
        learner.end_epoch()
        assert chosen(learner) == tuple_keys(range(3), 1)
        learn_all(learner, batch.rows(1500, 3000))
        assert degrees(learner) == {1: 15, 2: 27}
        learner.end_epoch()
        pairs = set(chosen(learner)) - set(tuple_keys(range(3), 1))
        assert len(pairs) == 2
        assert pairs < set(tuple_keys(range(3), 2))
        learn_all(learner, batch.rows(3000, 4500))
        assert 3 not in degrees(learner)  # of its three pairs only two were selected

    def test_all_levels_are_learned_in_the_end(self) -> None:
        """If everything is kept, base features, pairs, and triples are features."""
        codes = drawn_codes(3600, [2] * 3, 12)
        learner = tuple_learner(order=3, hierarchical=True, selection_share=0.99)
        learn_all(learner, coded_batch(codes, codes.sum(axis=1) > 1), (1100, 2200, 3300))
        assert chosen(learner) == sorted(itertools.chain(*(tuple_keys(range(3), order) for order in (1, 2, 3))))
        assert degrees(learner) == {1: 6, 2: 12, 3: 8}

    def test_what_shows_only_together_is_overlooked(self) -> None:
        """The attributes of an exclusive or say nothing alone, and others say a little."""
        codes = drawn_codes(4000, [2] * 6, 13)
        noise = np.random.default_rng(14).random(4000) < 0.1
        positive = np.where(noise, codes[:, 5] > 0, codes[:, 0] != codes[:, 1])
        learner = tuple_learner(hierarchical=True, selection_share=0.2)
        learn_all(learner, coded_batch(codes, positive), (1100, 2200))
        assert tuple_key(0, 1) not in chosen(learner)
