"""How weights move, where scores start, and what bounds a model."""

import itertools
import math
import tracemalloc
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from learners.batches import batch_of, drawn_batch, key_of, learn_all, scores_of
from learners.tuples.codes import coded_batch, drawn_codes, number_batch, tuple_learner
from support.from_python import from_python

from stream_apple.core.batch import Batch
from stream_apple.learners.loss_functions import invariant_step as invariant_step_routine
from stream_apple.learners.loss_functions import squared_slope as squared_slope_routine
from stream_apple.learners.tuples.model import OCCUPIED, REFUSED
from stream_apple.learners.tuples.options import TupleOptions

invariant_step, squared_slope = from_python(invariant_step_routine), from_python(squared_slope_routine)
RATE = 0.5


class ReferenceModel:
    """The model in plain Python: a dictionary of features, each of which is a tuple of base features."""

    def __init__(self, loss: int, order: int) -> None:
        self.loss, self.order = loss, order
        self.weights: dict[Any, float] = defaultdict(float)
        self.gradients: dict[Any, float] = defaultdict(float)
        self.scales: dict[Any, float] = defaultdict(float)
        self.norm = self.importance = self.low = self.high = 0.0

    def features(self, batch: Batch, row: int) -> dict[Any, float]:
        """Return the features of an example and their values: the constant, base features, and products."""
        span = slice(int(batch.indptr[row]), int(batch.indptr[row + 1]))
        base = list(
            zip(batch.keys[span].tolist(), batch.attributes[span].tolist(), batch.values[span].tolist(), strict=True)
        )
        found: dict[Any, float] = {(): 1.0} | {(key,): value for key, _, value in base}
        for each in itertools.combinations(base, self.order):
            if len({attribute for _, attribute, _ in each}) == self.order:
                found[tuple(sorted(key for key, _, _ in each))] = math.prod(value for _, _, value in each)
        return found

    def learn(self, batch: Batch, row: int) -> float:
        """Return the score of an example, and learn it."""
        label, weight = float(batch.labels[row]), float(batch.weights[row])
        features = self.features(batch, row)
        low, high = (self.low, self.high) if self.loss == 0 else (-50.0, 50.0)
        score = min(max(sum(self.weights[each] * value for each, value in features.items()), low), high)
        if math.isnan(label) or weight == 0.0:
            return score
        self.low, self.high = min(self.low, label), max(self.high, label)
        slope = weight * squared_slope(self.loss, score, label)
        if slope == 0.0:
            return score
        steps = {}
        for each, value in features.items():
            if abs(value) > self.scales[each]:
                self.weights[each] *= self.scales[each] / abs(value)
                self.scales[each] = abs(value)
            self.gradients[each] += slope * value * value
            steps[each] = value / self.scales[each] / math.sqrt(self.gradients[each])
        self.norm += weight * sum((value / self.scales[each]) ** 2 for each, value in features.items())
        self.importance += weight
        normalizer = math.sqrt(self.importance / self.norm)
        sensitivity = sum(value * steps[each] for each, value in features.items()) * normalizer
        change = normalizer * invariant_step(self.loss, score, label, RATE * weight, sensitivity)
        for each, step in steps.items():
            self.weights[each] += change * step
        return score


class TestUpdate:
    """The kernel against the same formulas in plain Python."""

    @pytest.mark.parametrize("loss", ["squared", "logistic"])
    @pytest.mark.parametrize("order", [1, 2, 3, 4])
    def test_scores_equal_those_of_the_reference(self, loss: str, order: int) -> None:
        """Weights are float32 in the table, so they agree to about 1e-5."""
        batch = drawn_batch(250, 3, loss=loss)
        learner = tuple_learner(loss=loss, order=order, discretise="none", bits=16)
        reference = ReferenceModel(("squared", "logistic").index(loss), order)
        expected = [reference.learn(batch, row) for row in range(250)]
        assert learn_all(learner, batch).predictions == pytest.approx(expected, rel=1e-4, abs=1e-4)

    def test_features_are_products_of_different_attributes(self) -> None:
        """Two values of one attribute, as of a list, are in no pair; packed features are attributes of their own."""
        names = [["a=1", "a=2", "b=1", "c"]]
        batch = batch_of(names, np.ones((1, 4), np.float32), np.ones(1), np.ones(1))
        learner, packed = tuple_learner(), tuple_learner()
        learn_all(learner, batch)
        learn_all(packed, batch._replace(attributes=np.zeros(4, np.uint64)))
        assert learner.features_per_example == 1 + 4 + 5
        assert packed.features_per_example == 1 + 4 + 6

    def test_factors_are_found_for_any_degree(self) -> None:
        """A product is shown as the base features that it was made of."""
        batch = drawn_batch(100, 4)
        for order in (2, 3, 4):
            learner = tuple_learner(order=order, discretise="none")
            learn_all(learner, batch)
            terms = [term for term in learner.explain(batch.rows(7, 8))[0].terms if len(term.factors) == order]
            expected = set(itertools.combinations(sorted(batch.keys[42:48].tolist()), order))
            assert {tuple(factor.key for factor in term.factors) for term in terms} == expected


class TestNaiveBayesStart:
    """Scores that start from the examples counted so far."""

    @pytest.mark.parametrize("order", [1, 2, 3])
    def test_the_odds_are_those_of_the_averaged_estimator(self, order: int) -> None:
        """With a learning rate next to 0 a score is trust * odds; the odds are summed here as they are defined."""
        codes = drawn_codes(400, [2, 3, 4, 3], 1)
        positive = codes[:, 0] + codes[:, 1] > drawn_codes(400, [4], 2)[:, 0]
        learner = tuple_learner(order=order, warm_start="naive_bayes", learning_rate=1e-30)
        learn_all(learner, coded_batch(codes, positive))
        found = scores_of(learner, coded_batch(codes[:20], positive[:20])).predictions
        totals = np.array([positive.sum(), (~positive).sum()], float)
        attributes = codes.shape[1]
        expected = []
        for row in codes[:20]:
            odds = math.log((totals[0] + 1.0) / (totals[1] + 1.0))
            for each in itertools.combinations(range(attributes), order):
                same = (codes[:, list(each)] == row[list(each)]).all(axis=1)
                counts = np.array([(same & positive).sum(), (same & ~positive).sum()], float)
                theta = (counts + 0.1 * counts.sum() / totals.sum()) / (totals + 0.1)
                odds += math.log(theta[0] / theta[1]) / math.comb(attributes - 1, order - 1)
            expected.append(odds)
        trust = float(learner.state.sums["trust"][0])
        assert trust > 0.0
        assert found == pytest.approx(trust * np.array(expected), rel=1e-6, abs=1e-6)

    def test_it_learns_from_few_examples(self) -> None:
        """Where pairs decide, half of the errors are saved."""
        codes = drawn_codes(1500, [5] * 4, 3)
        batch = coded_batch(codes, codes[:, 0] == codes[:, 1])
        errors = []
        for start in ("none", "naive_bayes"):
            found = learn_all(tuple_learner(warm_start=start), batch).predictions
            errors.append(float(((found > 0.0) != (batch.labels > 0.0)).mean()))
        assert errors[1] < 0.5 * errors[0]

    def test_only_presence_votes(self) -> None:
        """A number that was not cut has no frequency: with numbers alone the start is the share of the label."""
        drawn = np.random.default_rng(4).normal(size=(200, 3))
        labels = np.where(np.arange(200) % 4 == 0, 1.0, -1.0)
        learner = tuple_learner(order=1, warm_start="naive_bayes", discretise="none", learning_rate=1e-30)
        learn_all(learner, number_batch(drawn, labels))
        trust = float(learner.state.sums["trust"][0])
        found = scores_of(learner, number_batch(drawn[:5], labels[:5])).predictions
        assert found == pytest.approx(np.full(5, trust * math.log(51.0 / 151.0)), rel=1e-6)


class TestBounds:
    """What happens at the limits of table and scratch."""

    def test_a_full_table_keeps_the_features_that_came_first(self) -> None:
        """Later ones are refused and counted."""
        codes = drawn_codes(600, [40] * 4, 5)
        learner = tuple_learner(bits=8)
        batch = coded_batch(codes, codes[:, 0] > 20)
        learn_all(learner, batch.rows(0, 20))
        before = set(learner.state.rows["slots"]["key"].tolist())
        learn_all(learner, batch.rows(20, 600))
        slots = learner.state.rows["slots"]
        counts = learner.state.sums["counts"]
        assert before <= set(slots["key"].tolist())
        assert counts[OCCUPIED] == np.count_nonzero(slots["key"]) <= 256
        assert counts[REFUSED] > 0

    def test_a_selection_makes_room(self) -> None:
        """The slots of tuples that are left out go to others."""
        codes = drawn_codes(1500, [8] * 5, 6)
        batch = coded_batch(codes, codes[:, 0] == codes[:, 1])
        learner = tuple_learner(bits=9, selection_share=0.1)
        learn_all(learner, batch.rows(0, 1200))
        assert learner.state.sums["counts"][REFUSED] > 0
        learner.end_epoch()
        learn_all(learner, batch.rows(1200, 1500))
        learn_all(learner, batch)
        slots = learner.state.rows["slots"]
        assert np.count_nonzero(slots["degree"] == 1) == 40
        assert np.count_nonzero(slots["degree"] == 2) == 64

    @pytest.mark.parametrize("selection", ["mi", "cv"])
    def test_a_selection_takes_no_more_memory_than_was_promised(self, selection: str) -> None:
        """Of a full table, most of whose tuples are kept: 2.5 times the table."""
        codes = drawn_codes(4000, [40] * 6, 8)
        learner = tuple_learner(selection=selection, selection_share=0.9)
        learn_all(learner, coded_batch(codes, codes[:, 0] == codes[:, 1]))
        table = learner.state.rows["slots"].nbytes
        tracemalloc.start()
        try:
            learner.end_epoch()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2.5 * table
        assert (
            learner.options.model_bytes() - tuple_learner(selection=selection).options.model_bytes() >= 2.5 * table - 1
        )

    def test_products_beyond_the_limit_are_left_out(self) -> None:
        """The base features come first; an example that fits exactly is not truncated."""
        codes = drawn_codes(50, [3] * 5, 7)
        batch = coded_batch(codes, codes[:, 0] > 0)
        exact, short = tuple_learner(max_features_per_example=16), tuple_learner(max_features_per_example=15)
        for learner, most, truncated in ((exact, 16, 0), (short, 15, 50)):
            learn_all(learner, batch)
            assert learner.features_per_example == most
            assert learner.truncated == truncated

    def test_a_product_out_of_range_is_left_out(self) -> None:
        """Values may be as large as 2^59; their product would not fit, and a score stays finite."""
        names = [["n0", "n1", "n2"]] * 40
        values = np.tile(np.array([2.0**59, 2.0**59, 2.0**-100], np.float32), (40, 1))
        labels = np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
        for loss in ("logistic", "squared"):
            learner = tuple_learner(loss=loss, order=3, discretise="none")
            scores = learn_all(learner, batch_of(names, values, labels, np.full(40, 1e6)))
            assert np.isfinite(scores.predictions).all()
            assert all(np.isfinite(learner.state.rows["slots"][name]).all() for name in ("weight", "gradient", "scale"))

    def test_a_feature_may_occur_twice(self) -> None:
        """Packed indices may repeat: the example is learned, and has no product of a feature with itself."""
        batch = batch_of([["a=1", "a=1", "b=2"]] * 30, np.ones((30, 3), np.float32), np.ones(30), np.ones(30))
        learner = tuple_learner()
        assert np.isfinite(learn_all(learner, batch).predictions).all()
        keys = learner.state.rows["slots"]["key"]
        assert set(keys[keys != 0].tolist()) == {
            key_of("a=1"),
            key_of("b=2"),
            (key_of("a=1") + key_of("b=2")) % 2**64,
        }

    def test_scores_stay_within_the_labels_seen(self) -> None:
        """With the squared loss: between the least and the largest of 0 and the labels learned before."""
        batch = drawn_batch(300, 8, loss="squared")
        found = learn_all(tuple_learner(loss="squared"), batch).predictions
        labels = np.where(np.isnan(batch.labels) | (batch.weights == 0.0), 0.0, batch.labels)
        low, high = np.minimum.accumulate(np.minimum(labels, 0.0)), np.maximum.accumulate(np.maximum(labels, 0.0))
        assert found[0] == 0.0
        assert ((found[1:] >= low[:-1]) & (found[1:] <= high[:-1])).all()


class TestOptions:
    """Defaults that depend on others, and the combinations that are refused."""

    def test_defaults_go_with_the_loss_and_the_order(self) -> None:
        """Mutual information and naive Bayes need two labels; triples need a larger table."""
        plain, squared = TupleOptions(), TupleOptions(loss="squared", order=3)
        assert (plain.selection, plain.warm_start, plain.bits) == ("mi", "naive_bayes", 18)
        assert (squared.selection, squared.warm_start, squared.bits) == ("cv", "none", 22)

    @pytest.mark.parametrize("given", [{"selection": "mi"}, {"warm_start": "naive_bayes"}])
    def test_two_combinations_are_refused(self, given: dict[str, Any]) -> None:
        """The message says what was expected, and why."""
        with pytest.raises(ValueError, match=r"expected .* with loss squared, found .*: it needs two labels"):
            TupleOptions(loss="squared", **given)

    def test_none_is_no_value_of_other_options(self) -> None:
        """Only options whose default depends on others may be None."""
        given: dict[str, Any] = {"order": None}
        with pytest.raises(ValueError, match="order: expected a value, found None"):
            TupleOptions(**given)
