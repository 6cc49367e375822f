"""What every learner has to keep to, whatever it learns: the contract of `learners/port.py`.

A learner joins by a line in CASES. Tests of what only one learner does are next to it.
"""

import dataclasses
import itertools
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pytest
from learners.batches import (
    WIDE,
    batch_of,
    copy_of,
    drawn_batch,
    learn_all,
    overflow,
    same_scores,
    scores_of,
    wide_batch,
    with_value,
)

from stream_apple.core.batch import Batch
from stream_apple.errors import ModelError
from stream_apple.learners.apple.learner import Learner as AppleLearner
from stream_apple.learners.apple.options import Options as AppleOptions
from stream_apple.learners.hashed.learner import HashedLearner
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.port import Learner
from stream_apple.learners.scores import Scores
from stream_apple.learners.state import check_finite
from stream_apple.learners.tuples.learner import TupleLearner
from stream_apple.learners.tuples.options import TupleOptions

ROWS = 1400
ENDS = (1100, 1250)
"""Where epochs end: the first is long enough for every learner to choose features."""


class Case(NamedTuple):
    """A learner with options; both have the names by which the tests know them."""

    name: str
    learner: Callable[[Any], Any]
    options: Callable[..., Any]
    given: dict[str, Any]

    def make(self, **others: Any) -> Learner:
        """Return a new learner with these options, some of them replaced by `others`."""
        learner: Learner = self.learner(self.options(**{**self.given, **others}))
        return learner

    def batch(self, rows: int = ROWS, seed: int = 0) -> Batch:
        """Return examples that the learner can learn."""
        return drawn_batch(rows, seed, **self._labels)

    def wide_batch(self, rows: int) -> Batch:
        """Return examples with more features than a small table has room for."""
        return wide_batch(rows, **self._labels)

    @property
    def _labels(self) -> dict[str, Any]:
        options = self.make().options
        return {"loss": options.loss, "classes": options.classes}


def _cases() -> Iterator[Case]:
    for name, given in (
        ("tuples", {}),
        ("tuples-squared", {"loss": "squared", "selection_share": 0.5}),
        ("tuples-mi", {"order": 3, "selection_share": 0.4, "discretise": "mdl"}),
        ("tuples-cv", {"selection": "cv", "selection_share": 0.4, "warm_start": "none", "discretise": "none"}),
        ("tuples-by-level", {"order": 3, "hierarchical": True, "selection_share": 0.8}),
    ):
        yield Case(name, TupleLearner, TupleOptions, {"bits": 14, **given})
    for name, given in (
        ("hashed", {}),
        ("hashed-squared", {"loss": "squared", "l1": 1e-4, "l2": 1e-3}),
        ("hashed-plain", {"descent": "plain", "learning_rate": 0.05, "l2": 1e-3}),
        ("hashed-plain-squared", {"descent": "plain", "learning_rate": 0.02, "loss": "squared", "l1": 1e-4}),
        ("hashed-users", {"personalise": "c3", "l1": 1e-5, "bits": 12}),
    ):
        yield Case(name, HashedLearner, HashedOptions, {"bits": 14, **given})

    yield Case("apple", AppleLearner, AppleOptions, {"bits": 14})
    yield Case("apple-linear", AppleLearner, AppleOptions, {"bits": 14, "method": "linear", "loss": "logistic"})
    yield Case("apple-classes", AppleLearner, AppleOptions, {"bits": 14, "loss": "softmax", "classes": 3})


CASES = {case.name: case for case in _cases()}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """Each learner with each set of options."""
    return CASES[request.param]


class TestRecovery:
    """A learner that is restored from arrays continues as if nothing had happened."""

    @pytest.mark.parametrize("cut", [0, 1, 37, 499, 500, 501, 1099, 1100, 1101, 1249, 1399])
    def test_a_restored_learner_continues_to_the_bit(self, case: Case, cut: int) -> None:
        """The state is copied at a row into a new learner, and both learn on."""
        batch = case.batch()
        whole, other = case.make(), case.make()
        expected = learn_all(whole, batch, ENDS)
        scores = Scores.empty(ROWS, other.options.classes)
        bounds = sorted({0, cut, *ENDS, ROWS})
        for start, stop in itertools.pairwise(bounds):
            if start in ENDS:
                other.end_epoch()
            if start == cut:
                other = copy_of(other)
            other.learn(batch, start, stop, scores)
        assert other.digest() == whole.digest()
        assert same_scores(scores, expected)
        assert same_scores(scores_of(other, case.batch(50, 1)), scores_of(whole, case.batch(50, 1)))

    def test_what_is_for_display_is_restored_too(self, case: Case) -> None:
        """Counts that no score depends on."""
        learner = case.make()
        learn_all(learner, case.batch(), ENDS)
        other = copy_of(learner)
        for name, array in learner.observed.items():
            assert np.array_equal(array, other.observed[name], equal_nan=True), name
        assert other.progress.report("whole") == learner.progress.report("whole")
        assert other.describe() == learner.describe()
        assert other.find(10) == learner.find(10)

    def test_the_digest_sees_every_array(self, case: Case) -> None:
        """A bit changed anywhere in the state changes the digest."""
        learner = case.make()
        learn_all(learner, case.batch(), ENDS)
        seen = {learner.digest()}
        state = learner.state
        arrays = {**state.rows, **state.sums}
        for array in (each for each in arrays.values() if each.nbytes):
            array.reshape(-1).view(np.uint8)[-1] ^= 1
            seen.add(learner.digest())
        assert len(seen) == 1 + sum(array.nbytes > 0 for array in arrays.values())

    def test_the_state_of_another_kind_is_refused(self, case: Case) -> None:
        """A name too few, a name too many, or another type: ValueError."""
        learner = case.make()
        learn_all(learner, case.batch(200))
        sums = {name: array.copy() for name, array in learner.state.sums.items()}
        for name, own in sums.items():
            with pytest.raises(ValueError, match="expected"):
                case.make().restore({other: array for other, array in sums.items() if other != name})
            with pytest.raises(ValueError, match="expected"):
                case.make().restore({**sums, name: np.zeros(len(own), np.complex64)})
        with pytest.raises(ValueError, match="expected"):
            case.make().restore({**sums, "another": np.zeros(1)})

    def test_the_state_has_the_shape_that_snapshots_need(self, case: Case) -> None:
        """Rows have one length; all other arrays have one dimension."""
        learner = case.make()
        learn_all(learner, case.batch(600))
        assert len({len(array) for array in learner.state.rows.values()}) == 1
        assert {array.ndim for array in learner.state.sums.values()} == {1}
        assert all(array.dtype.kind in "biufV" for array in learner.state.rows.values())


class TestScoring:
    """Scoring, explaining, and describing change nothing."""

    def test_looking_changes_nothing(self, case: Case) -> None:
        """The digest is the same after each of them."""
        learner, batch = case.make(), case.batch()
        for start, stop in ((0, 300), (300, ROWS)):
            learner.learn(batch, start, stop, Scores.empty(ROWS, learner.options.classes))
            before = learner.digest()
            scores_of(learner, case.batch(100, 1))
            scores_of(learner, case.wide_batch(10))
            learner.explain(batch.rows(5, 6))
            learner.describe()
            learner.find(10)
            learner.census()
            assert learner.digest() == before
            learner.end_epoch()

    def test_a_row_is_scored_before_it_is_learned(self, case: Case) -> None:
        """The score of `learn` is that of `score_rows`, for labels within the range of those learned before."""
        learner, batch = case.make(), case.batch()
        found = learn_all(learner, batch)
        for row in range(0, 600, 29):
            expected = Scores.empty(ROWS, learner.options.classes)
            learner.score_rows(batch, row, row + 1, expected)
            learner.learn(batch, row, row + 1, found)
            assert found.predictions[row] == expected.predictions[row]
            assert np.array_equal(found.losses[row], expected.losses[row], equal_nan=True)

    def test_it_learns(self, case: Case) -> None:
        """The loss falls below that of the best constant."""
        learner = case.make()
        learn_all(learner, case.batch(), ENDS)
        report = learner.progress.report("recent")
        assert report.loss < 0.9 * report.best_constant_loss

    def test_a_row_without_a_label_or_weight_is_only_scored(self, case: Case) -> None:
        """It has a prediction; rows of the table, counts of examples, and later scores are the same."""
        learner, batch, probe = case.make(), case.batch(), case.batch(50, 1)
        learn_all(learner, batch)
        before = {name: array.copy() for name, array in learner.state.rows.items()}
        expected, examples = scores_of(learner, probe), learner.examples
        unlabelled = probe._replace(labels=np.full(50, np.nan))
        weightless = probe._replace(weights=np.zeros(50))
        for each in (unlabelled, weightless):
            found = learn_all(learner, each)
            assert np.array_equal(found.predictions, expected.predictions)
        assert all(np.array_equal(array, learner.state.rows[name]) for name, array in before.items())
        assert learner.examples == examples
        assert same_scores(scores_of(learner, probe), expected)

    def test_examples_are_counted(self, case: Case) -> None:
        """Those with a label and a weight."""
        learner, batch = case.make(), case.batch(300)
        assert learner.examples == 0
        assert math.isnan(learner.features_per_example)
        learn_all(learner, batch)
        assert learner.examples == len(batch.learned(0, 300))
        assert learner.features_per_example > 1.0


class TestBatches:
    """Learning depends on the rows, and not on how they come."""

    @pytest.mark.parametrize("size", [1, 7, 100, 499])
    def test_the_size_of_batches_makes_no_difference(self, case: Case, size: int) -> None:
        """Equal digests and scores, to the bit."""
        rows = 600 if size == 1 else ROWS
        batch = case.batch(rows)
        whole, other = case.make(), case.make()
        expected = learn_all(whole, batch, ENDS)
        found = learn_all(other, batch, ENDS, tuple(range(0, rows, size)))
        assert other.digest() == whole.digest()
        assert same_scores(found, expected)

    def test_rows_may_come_in_batches_of_their_own(self, case: Case) -> None:
        """Views of some rows are learned as the rows of one large batch."""
        batch = case.batch(600)
        whole, other = case.make(), case.make()
        learn_all(whole, batch)
        for start in range(0, 600, 50):
            learn_all(other, batch.rows(start, start + 50))
        assert other.digest() == whole.digest()

    def test_rows_outside_of_the_bounds_are_not_written(self, case: Case) -> None:
        """Neither when learning nor when scoring."""
        learner, batch = case.make(), case.batch(60)
        scores = Scores.empty(60, learner.options.classes)
        learner.learn(batch, 10, 20, scores)
        learner.score_rows(batch, 30, 40, scores)
        written = np.flatnonzero(~np.isnan(scores.predictions)).tolist()
        assert written == [*range(10, 20), *range(30, 40)]

    def test_a_batch_without_rows_or_without_features(self, case: Case) -> None:
        """The first changes nothing; an example without features still has a score."""
        learner = case.make()
        before = learner.digest()
        learn_all(learner, case.batch(3).rows(0, 0))
        assert learner.digest() == before
        labels = case.batch(2, 3).labels
        empty = batch_of([[], []], np.zeros(0, np.float32), np.where(np.isnan(labels), 1.0, labels), np.ones(2))
        assert np.isfinite(learn_all(learner, empty).predictions).all()


class TestNonFiniteScores:
    """A record that would make a score infinite or NaN stops learning, and leaves no trace."""

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("row", [0, 50, 520, 1150])
    def test_a_value_that_is_not_finite_does_not_get_in(self, case: Case, value: float, row: int) -> None:
        """Either ModelError names the row, and the model is one that never saw it; or the feature is left out."""
        batch = case.batch()
        clean, other = case.make(), case.make()
        learn_all(clean, case.batch(1200, 2), (1100,))
        learn_all(other, case.batch(1200, 2), (1100,))
        learn_all(clean, batch.rows(0, row))
        # The value of a category that was learned before.
        poisoned = with_value(batch, int(batch.indptr[row]), value)
        refusal = None
        try:
            scores = learn_all(other, poisoned)
        except ModelError as error:
            refusal = error
        if refusal is None:
            assert np.isfinite(scores.predictions).all()
            check_finite(other.state.rows)
        else:
            assert refusal.row == row
            assert other.digest() == clean.digest()
            learn_all(clean, batch.rows(row + 1, ROWS))
            learn_all(other, batch.rows(row + 1, ROWS))
            assert other.digest() == clean.digest()

    @pytest.mark.parametrize("row", [0, 200])
    def test_weights_that_are_not_finite_are_not_learned_on(self, case: Case, row: int) -> None:
        """Scoring and learning raise ModelError for the first row, and the state is unchanged to the bit."""
        learner, batch = case.make(), case.batch()
        learn_all(learner, batch)
        overflow(learner)
        before = learner.digest()
        for act in (learner.score_rows, learner.learn):
            with pytest.raises(ModelError) as caught:
                act(batch, row, ROWS, Scores.empty(ROWS, learner.options.classes))
            assert caught.value.row == row
            assert learner.digest() == before


class TestBounds:
    """Memory is bounded by options, whatever comes."""

    def test_a_table_never_grows(self, case: Case) -> None:
        """Of more features than it has slots for, some are left out."""
        learner = case.make(bits=8)
        before = {name: array.shape for name, array in learner.state.rows.items()}
        batch = case.wide_batch(120)
        for end in range(0, 120, 40):
            learn_all(learner, batch.rows(end, end + 40))
            learner.end_epoch()
        assert {name: array.shape for name, array in learner.state.rows.items()} == before
        assert np.isfinite(scores_of(learner, batch).predictions).all()

    def test_a_state_is_not_larger_than_was_promised(self, case: Case) -> None:
        """`model_bytes` counts at least the arrays of the state."""
        learner = case.make(bits=8)
        learn_all(learner, case.batch(), ENDS)
        learn_all(learner, case.wide_batch(100))
        state = learner.state
        held = sum(array.nbytes for array in (*state.rows.values(), *state.sums.values()))
        assert held <= learner.options.model_bytes()

    def test_long_examples_are_cut_off(self, case: Case) -> None:
        """An example is learned with `max_features_per_example` features at most, the constant among them."""
        most = WIDE // 2
        learner = case.make(max_features_per_example=most)
        learn_all(learner, case.wide_batch(30))
        assert learner.truncated == 30
        assert learner.features_per_example <= most

    def test_more_features_take_more_memory(self, case: Case) -> None:
        """A table of twice the size is promised to need more."""
        assert case.make(bits=10).options.model_bytes() > case.make(bits=9).options.model_bytes()


class TestThreads:
    """Learners share nothing."""

    def test_two_learners_on_two_threads(self, case: Case) -> None:
        """Each is what it would be if it had learned without the other."""
        batches = [case.batch(seed=seed) for seed in (0, 1)]
        expected = [case.make() for _ in batches]
        for learner, batch in zip(expected, batches, strict=True):
            learn_all(learner, batch, ENDS)
        found = [case.make() for _ in batches]
        start = threading.Barrier(2)

        def learn(learner: Learner, batch: Batch) -> None:
            start.wait()
            learn_all(learner, batch, ENDS, tuple(range(0, ROWS, 10)))

        threads = [threading.Thread(target=learn, args=pair) for pair in zip(found, batches, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [learner.digest() for learner in found] == [learner.digest() for learner in expected]


class TestExplanations:
    """What is shown of a model agrees with what it predicts."""

    def test_a_score_is_taken_apart(self, case: Case) -> None:
        """The published score, or one for each class; the constant once; a finite weight in each predictor."""
        learner, batch = case.make(), case.batch()
        learn_all(learner, batch, ENDS)
        scores = scores_of(learner, batch)
        for row in range(0, 40, 8):
            found = learner.explain(batch.rows(row, row + 1))
            if not learner.options.classes:
                assert [(each.score, each.label) for each in found] == [(scores.predictions[row], None)]
            else:
                assert [each.label for each in found] == list(range(learner.options.classes))
            for each in found:
                assert sum(not term.factors and not term.unknown for term in each.terms) == 1
                assert {len(term.weights) for term in each.terms} == {len(each.shares)}
                assert all(math.isfinite(term.weight) for term in each.terms)

    def test_factors_are_those_of_base_features(self, case: Case) -> None:
        """Ascending; a base feature has its own key."""
        learner, batch = case.make(), case.batch()
        learn_all(learner, batch, ENDS)
        found = learner.find(1000)
        explained = learner.explain(batch.rows(0, 1))[0].terms
        for term in (*found.heaviest, *explained):
            assert list(term.factors) == sorted(term.factors)
        base = set(batch.keys.tolist())
        assert {factor.key for term in explained for factor in term.factors} & base
        known = {factor.key for term in found.heaviest for factor in term.factors}
        assert known & base or not known  # a learner that stores no keys knows none
        assert all(len(term.factors) + term.unknown > 1 for term in found.products)

    def test_the_heaviest_come_first(self, case: Case) -> None:
        """At most so many as are asked for."""
        learner = case.make()
        assert learner.find(5).heaviest == ()
        learn_all(learner, case.batch(), ENDS)
        sizes = [term.salience for term in learner.find(5).heaviest]
        assert len(sizes) == 5
        assert sizes == sorted(sizes, reverse=True)
        assert [term.salience for term in learner.find(3).heaviest] == sizes[:3]

    def test_tables_have_a_cell_for_each_column(self, case: Case) -> None:
        """At most so many rows as are asked for."""
        learner = case.make()
        learn_all(learner, case.batch(), ENDS)
        for table in learner.find(4).tables:
            assert table.title
            assert 0 < len(table.rows) <= 4
            assert {len(row) for row in table.rows} == {len(table.columns)}

    def test_features_are_counted_by_degree(self, case: Case) -> None:
        """The constant first; together they fill the slots that are occupied."""
        learner = case.make()
        assert learner.census().monomials.sum() == 1
        learn_all(learner, case.batch(), ENDS)
        found = learner.census()
        assert found.monomials[0] == 1
        assert found.monomials[1] > 0
        assert found.parents[1:].sum() <= found.monomials.sum()
        occupied = learner.describe().gauges.get("table_occupied_slots")
        assert occupied in {None, found.monomials[1:].sum()}

    def test_gauges_are_numbers(self, case: Case) -> None:
        """Before the first example, too; names do not change with what was learned."""
        learner = case.make()
        before = learner.describe()
        learn_all(learner, case.batch(), ENDS)
        after = learner.describe()
        assert before.gauges.keys() == after.gauges.keys()
        assert all(math.isfinite(value) for value in after.gauges.values())
        assert all(isinstance(text, str) for text in (after.kind, *after.notes))
        assert bool(after.weights) == learner.options.mixed


class TestOptions:
    """Options define a model, and never change."""

    def test_they_are_frozen(self, case: Case) -> None:
        """Another value can't be set later."""
        with pytest.raises(dataclasses.FrozenInstanceError):
            case.make().options.bits = 9

    def test_the_identity_survives_a_message(self, case: Case) -> None:
        """It is equal after packing, and differs between options."""
        identity = case.make().options.identity()
        assert msgpack.unpackb(msgpack.packb(identity)) == identity
        assert case.make(bits=9).options.identity() != identity

    def test_a_value_out_of_bounds_is_refused(self, case: Case) -> None:
        """The message names the option, what was expected, and what was found."""
        for given in ({"bits": 7}, {"bits": 31}, {"learning_rate": 0.0}, {"max_features_per_example": 1}):
            with pytest.raises(ValueError, match=f"{next(iter(given))}: expected .*, found"):
                case.make(**given)
        with pytest.raises(ValueError, match="loss: expected"):
            case.make(loss="hinge")
