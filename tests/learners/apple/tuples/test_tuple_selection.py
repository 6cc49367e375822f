"""Which tuples are selected: their scores against sums written out, what selection must not miss, and what it does."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from learners.apple.categories import Case, batch_of_cases, cases_of_codes, sum_of_keys
from numpy.typing import NDArray
from support.from_python import from_python

from stream_apple.core.batch import Batch
from stream_apple.learners.apple import tuple_selection
from stream_apple.learners.apple.kernels.counts import information_of as information_of_routine
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import sides_of
from stream_apple.learners.apple.tuple_selection import information_about, tuples_in
from stream_apple.learners.scores import Scores

information_of = from_python(information_of_routine)


def learner_of(**chosen: Any) -> Learner:
    """One that selects pairs, unless it is said otherwise."""
    options: dict[str, Any] = {"method": "tuples", "loss": "logistic", "selection_share": 0.5, "bits": 16}
    return Learner(Options(**options | chosen))


def learned(learner: Learner, batch: Batch, ends: list[int]) -> NDArray[np.float64]:
    """The scores of all rows; an epoch ends at each of `ends`."""
    size = len(batch.labels)
    scores = Scores.empty(size)
    for start, stop in itertools.pairwise([0, *ends, size]):
        learner.learn(batch, start, stop, scores)
        if stop in ends:
            learner.end_epoch()
    return scores.predictions


def information_by_tuple(learner: Learner, order: int) -> dict[int, float]:
    """Mutual information with the label by the tuple's key."""
    places, tuples, of_place = tuples_in(learner.table, order)
    return dict(zip(tuples.tolist(), information_about(learner.table, places, of_place, len(tuples)), strict=True))


def written_out(codes: NDArray[np.int64], positive: NDArray[np.bool_], attributes: tuple[int, ...]) -> float:
    """I(T; Y) by its definition, in nats."""
    rows = [tuple(row) for row in codes[:, list(attributes)].tolist()]
    size, labels = len(rows), positive.tolist()
    joint, alone, classes = Counter(zip(rows, labels, strict=True)), Counter(rows), Counter(labels)
    return sum(
        count / size * math.log(count * size / (alone[row] * classes[label])) for (row, label), count in joint.items()
    )


def drawn(size: int, cardinalities: list[int], seed: int) -> NDArray[np.int64]:
    """int64[size, attributes], uniform."""
    return np.random.default_rng(seed).integers(0, cardinalities, (size, len(cardinalities)))


def names_of(*attributes: int) -> int:
    """The key of the tuple of these attributes of `cases_of_codes`."""
    return sum_of_keys([f"a{at}" for at in attributes])


class TestInformation:
    """Mutual information of tuples and label, from counts beside slots."""

    @pytest.mark.parametrize("order", [2, 3])
    def test_equals_its_definition(self, order: int) -> None:
        """Of every tuple."""
        codes = drawn(700, [2, 3, 5, 4], 1)
        positive = (codes[:, 0] + codes[:, 1] + drawn(700, [2], 2)[:, 0]) % 3 > 0
        learner = learner_of(order=order)
        learned(learner, batch_of_cases(cases_of_codes(codes, positive)), [])
        found = information_by_tuple(learner, order)
        expected = {
            names_of(*each): written_out(codes, positive, each) for each in itertools.combinations(range(4), order)
        }
        assert found == pytest.approx(expected, abs=1e-12)

    def test_is_the_sum_over_features(self) -> None:
        """Of what each feature's presence adds to it, as apple's parents are scored."""
        codes = drawn(500, [3, 4], 3)
        learner = learner_of()
        learned(learner, batch_of_cases(cases_of_codes(codes, codes[:, 0] > codes[:, 1])), [])
        places, _, _ = tuples_in(learner.table, 2)
        counts = learner.table.counts
        summands = [information_of(counts[place], counts[-1]) for place in places]
        assert sum(summands) == pytest.approx(information_by_tuple(learner, 2)[names_of(0, 1)], abs=1e-12)

    def test_of_an_exclusive_or(self) -> None:
        """Of two fair bits each says nothing, both together all: ln 2."""
        codes = np.array(list(itertools.product([0, 1], repeat=2)) * 300)
        learner = learner_of()
        learned(learner, batch_of_cases(cases_of_codes(codes, codes[:, 0] != codes[:, 1])), [])
        assert information_by_tuple(learner, 1) == pytest.approx({names_of(0): 0.0, names_of(1): 0.0}, abs=1e-12)
        assert information_by_tuple(learner, 2) == pytest.approx({names_of(0, 1): math.log(2)}, abs=1e-12)

    def test_does_not_depend_on_what_values_are_called(self) -> None:
        """Nor on which label is which."""
        codes = drawn(600, [4, 4, 4], 5)
        positive = codes[:, 0] == codes[:, 1]
        other = np.array([2, 0, 3, 1])[codes]
        found = []
        for each, labels in ((codes, positive), (other, positive), (codes, ~positive)):
            learner = learner_of()
            learned(learner, batch_of_cases(cases_of_codes(each, labels)), [])
            found.append(information_by_tuple(learner, 2))
        assert found[0] == pytest.approx(found[1], abs=1e-12)
        assert found[0] == pytest.approx(found[2], abs=1e-12)

    def test_absence_is_a_value(self) -> None:
        """Of names without values, which are absent where they do not hold, as in sparse files."""
        codes = drawn(800, [2, 2, 2], 6)
        positive = (codes[:, 0] & codes[:, 1]) > 0
        cases = [
            Case([(f"a{at}", 1.0) for at in np.flatnonzero(row)], 1.0 if label else -1.0)
            for row, label in zip(codes, positive, strict=True)
        ]
        learner = learner_of()
        learned(learner, batch_of_cases(cases), [])
        both = (codes[:, [0]] & codes[:, [1]]).astype(np.int64)
        expected = written_out(both, positive, (0,))
        assert information_by_tuple(learner, 2)[names_of(0, 1)] == pytest.approx(expected, abs=1e-12)

    def test_favours_many_values(self) -> None:
        """An attribute that says nothing, of 200 values, comes before one of two that says something; not with cv."""
        codes = drawn(3000, [2, 2, 200, 2], 7)
        noise = np.random.default_rng(8).random(3000) < 0.35
        batch = batch_of_cases(cases_of_codes(codes, (codes[:, 0] == codes[:, 1]) ^ noise))
        by_mi, by_cv = learner_of(selection_share=0.1), learner_of(selection="cv", selection_share=0.1)
        for learner in (by_mi, by_cv):
            learned(learner, batch, [2900])
        assert by_mi.selection.chosen.tolist() != [names_of(0, 1)]
        assert by_cv.selection.chosen.tolist() == [names_of(0, 1)]


def selected_all(learner: Learner) -> int:
    """How many of the C(6, 2) pairs may have features."""
    return len(learner.selection.chosen)


class TestSelection:
    """What an epoch's end leaves out, and what stays."""

    def test_all_is_no_selection(self) -> None:
        """To the bit: with a share of 1 nothing is ever asked, level by level or not; nor does one that keeps all."""
        codes = drawn(2500, [3] * 6, 9)
        batch = batch_of_cases(cases_of_codes(codes, codes[:, 0] == codes[:, 1]))
        whole, by_level, nearly = (
            learner_of(selection_share=share, hierarchical=hierarchical)
            for share, hierarchical in ((1.0, False), (1.0, True), (0.99, False))
        )
        scores = [learned(learner, batch, [1200]) for learner in (whole, by_level, nearly)]
        assert whole.digest() == by_level.digest()
        assert selected_all(nearly) == 15
        assert np.array_equal(scores[0], scores[1])
        assert np.array_equal(scores[0], scores[2])

    @pytest.mark.parametrize(("selection", "loss"), [("mi", "logistic"), ("cv", "logistic"), ("cv", "squared")])
    def test_the_best_are_kept(self, selection: str, loss: str) -> None:
        """Of planted pairs; a pair of attributes that say nothing is left out."""
        codes = drawn(3000, [4] * 6, 10)
        batch = batch_of_cases(cases_of_codes(codes, (codes[:, 0] == codes[:, 1]) ^ (codes[:, 2] == codes[:, 3])))
        learner = learner_of(selection=selection, loss=loss, selection_share=2 / 15)
        learned(learner, batch, [2000])
        assert set(learner.selection.chosen.tolist()) == {names_of(0, 1), names_of(2, 3)}
        assert learner.selection.seen == 15

    def test_losers_lose_their_slots(self) -> None:
        """Tags, counts and the number of slots in use agree; free slots are as if nobody had ever had them."""
        codes = drawn(3000, [6] * 8, 11)
        batch = batch_of_cases(cases_of_codes(codes, codes[:, 0] == codes[:, 1]))
        for selection, bits in itertools.product(("mi", "cv"), (8, 16)):
            learner = learner_of(selection=selection, selection_share=0.2, bits=bits)
            learned(learner, batch, [2000])
            check(learner)
            assert learner.evicted > 0 or bits == 16
            degrees = learner.table.slots["degree"][:-1]
            attributes = learner.table.counts["attributes"][:-1][degrees == 2]
            assert set(attributes.tolist()) <= set(learner.selection.chosen.tolist())

    def test_few_examples_select_nothing(self) -> None:
        """Nor does a stream that has one class alone."""
        codes = drawn(1500, [3] * 4, 12)
        positive = codes[:, 0] == codes[:, 1]
        few, one = learner_of(), learner_of()
        learned(few, batch_of_cases(cases_of_codes(codes, positive)), [tuple_selection.FEWEST_EXAMPLES - 1])
        learned(one, batch_of_cases(cases_of_codes(codes, np.ones(1500, np.bool_))), [1400])
        for learner in (few, one):
            assert learner.selection.level == 2
            assert not len(learner.selection.chosen)

    def test_at_most_so_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A snapshot keeps them in one message: the best of them stay, and attributes beyond count as late ones."""
        monkeypatch.setattr(tuple_selection, "MOST_TUPLES", 4)
        codes = drawn(3000, [3] * 6, 13)
        learner = learner_of(selection_share=0.9)
        learned(learner, batch_of_cases(cases_of_codes(codes, codes[:, 0] == codes[:, 1])), [1500, 2800])
        assert len(learner.selection.chosen) == len(learner.selection.known) == 4
        assert names_of(0, 1) in learner.selection.chosen


def check(learner: Learner) -> None:
    """The table agrees with itself."""
    table = learner.table
    free = table.slots["key"][:-1] == 0
    assert learner.occupied == np.count_nonzero(~free)
    assert np.array_equal(table.tags.view(np.uint8) == 0, free)
    assert not table.slots[:-1][free].view(np.uint8).any()
    for side in sides_of(table, 0, len(free)).values():
        assert not side[free].view(np.uint8).any()


class TestLevelByLevel:
    """hsALR: attributes first, then pairs of those."""

    def test_candidates_are_made_of_winners(self) -> None:
        """A triple joins only if its three pairs were selected, a pair only if both of its attributes were."""
        codes = drawn(6000, [3] * 6, 14)
        score = codes[:, 0] + codes[:, 1] + codes[:, 2] + (codes[:, 0] == codes[:, 1])
        batch = batch_of_cases(cases_of_codes(codes, score > 3))
        learner = learner_of(order=3, hierarchical=True, selection_share=0.5, bits=18)
        scores = Scores.empty(6000)
        learner.learn(batch, 0, 1500, scores)
        assert not (learner.table.slots["degree"] > 1).any()
        learner.end_epoch()
        singles = learner.selection.chosen.tolist()
        assert sorted(singles) == sorted(names_of(at) for at in range(3))
        learner.learn(batch, 1500, 3000, scores)
        pairs, _ = kept(learner, 2)
        assert pairs == {names_of(*pair) for pair in itertools.combinations(range(3), 2)}
        learner.end_epoch()
        chosen = set(learner.selection.chosen.tolist()) - set(singles)
        assert len(chosen) == 2  # of three
        learner.learn(batch, 3000, 4500, scores)
        assert kept(learner, 2)[0] == chosen
        assert not (learner.table.slots["degree"] > 2).any()  # one of its pairs was not selected
        check(learner)

    def test_up_to_triples(self) -> None:
        """With a share that keeps them, in so many epochs; and when all is selected, nothing changes any more."""
        codes = drawn(7000, [2] * 5, 15)
        learner = learner_of(order=3, hierarchical=True, selection_share=0.8, bits=18)
        batch = batch_of_cases(cases_of_codes(codes, (codes[:, 0] + codes[:, 1] + codes[:, 2]) > 1))
        learned(learner, batch, [1500, 3000, 4500])
        assert learner.selection.level == 4
        triples, _ = kept(learner, 3)
        assert triples
        assert names_of(0, 1, 2) in triples
        chosen = learner.selection.chosen.copy()
        assert learner.end_epoch().tuples == (0, 0)
        assert np.array_equal(learner.selection.chosen, chosen)

    def test_it_is_blind_to_what_shows_only_together(self) -> None:
        """Of an exclusive or each bit says nothing: attributes that say a little come first. Pairs at once see it."""
        rng = np.random.default_rng(16)
        codes = drawn(8000, [2] * 6, 17)
        positive = codes[:, 0] != codes[:, 1]
        for at in range(2, 6):  # each agrees with the label a little
            codes[:, at] = np.where(rng.random(8000) < 0.1, positive, codes[:, at])
        batch = batch_of_cases(cases_of_codes(codes, positive))
        errors = {}
        for hierarchical in (False, True):
            learner = learner_of(hierarchical=hierarchical, selection_share=0.3)
            scores = learned(learner, batch, [1500, 3000])
            errors[hierarchical] = float(np.mean((scores[6000:] > 0) != positive[6000:]))
            assert (names_of(0, 1) in learner.selection.chosen) is not hierarchical
        assert errors[False] == 0.0
        assert errors[True] > 0.2


def kept(learner: Learner, order: int) -> tuple[set[int], int]:
    """The tuples of this order that have features, and how many features those are."""
    places, tuples, _ = tuples_in(learner.table, order)
    return set(tuples.tolist()), len(places)


class TestInOnePass:
    """What an order learns that a lower one can't, as of poker hands."""

    def test_pairs_of_cards(self) -> None:
        """Five cards of 13 ranks: whether any two are alike shows in pairs, not in single cards."""
        codes = drawn(20_000, [13] * 5, 18)
        positive = np.array([len(set(hand)) < 5 for hand in codes.tolist()])
        batch = batch_of_cases(cases_of_codes(codes, positive))
        error = {}
        for name, learner in {
            "1": learner_of(order=1, selection_share=1.0),
            "2": learner_of(selection_share=1.0),
            "cv": learner_of(selection="cv", selection_share=0.9),
        }.items():
            scores = learned(learner, batch, [5000])
            error[name] = float(np.mean((scores[16_000:] > 0) != positive[16_000:]))
        assert error["1"] > 0.4  # that of the commoner label is .416
        assert error["2"] < 0.05
