"""From rows to a model: the reservoir, the step search, and what selection must not change."""

from math import log10

import numpy as np
import pytest
from study.tuples.planted import discrete, exclusive_or, noisy_classes, poker_hands

from stream_apple.study.tuples.fitting import (
    FittedModel,
    Folds,
    TupleChoice,
    TupleFitter,
    TupleScore,
    Validation,
    choose_order,
    draw_reservoir,
    score_tuples,
)
from stream_apple.study.tuples.index import all_tuples
from stream_apple.study.tuples.measures import worth_of
from stream_apple.study.tuples.model import count_model
from stream_apple.study.tuples.step_search import search_step


class TestReservoir:
    """Rows that validate are not learned from."""

    @pytest.mark.parametrize(("rows", "drawn"), [(100_000, 5_000), (20_000, 2_000), (5_000, 1_000), (300, 60)])
    def test_it_is_large_enough(self, rows: int, drawn: int) -> None:
        """A twentieth, and 2,000 where that is not most of what there is."""
        labels = (np.arange(rows) % 10 == 0).astype(np.int32)
        folds = draw_reservoir(labels, np.arange(rows), 0)
        assert len(folds.reservoir) == drawn
        assert sorted([*folds.learned, *folds.reservoir]) == list(range(rows))

    def test_classes_have_their_shares(self) -> None:
        """Stratified, and otherwise by the seed."""
        labels = np.random.default_rng(0).choice([0, 1, 2], 3_000, p=[0.8, 0.15, 0.05]).astype(np.int32)
        folds = draw_reservoir(labels, np.arange(3_000), 0)
        np.testing.assert_allclose(np.bincount(labels[folds.reservoir]), np.bincount(labels) / 5, atol=0.5)
        assert set(draw_reservoir(labels, np.arange(3_000), 1).reservoir) != set(folds.reservoir)


class TestStepSearch:
    """The best step that was tried."""

    def test_it_is_fine_around_the_best(self) -> None:
        """Where errors are steep, the grid becomes finer."""
        tried: list[float] = []

        def error_of(step: float) -> float:
            tried.append(step)
            return abs(log10(step) - 1.7346)

        assert abs(log10(search_step(error_of)) - 1.7346) <= 0.01
        assert len(tried) == len(set(tried))
        assert 11 <= len(tried) <= 35

    def test_where_errors_are_flat_it_is_one_that_was_tried(self) -> None:
        """The mean of a coarse grid's ends would be a step of another size."""
        errors: dict[float, float] = {}

        def error_of(step: float) -> float:
            errors[step] = 0.3 + 0.001 * abs(log10(step) + 2.4)
            return errors[step]

        found = search_step(error_of)
        assert errors[found] == min(errors.values())
        assert len(errors) == 11

    @pytest.mark.parametrize("sign", [-1, 1])
    def test_the_best_may_be_at_an_end(self, sign: int) -> None:
        """Index 0 is evaluated, and no neighbour beyond the ends is asked for."""
        assert search_step(lambda step: sign * log10(step)) == 10.0 ** (-6 * sign)


def fitted(rows: int, choice: TupleChoice) -> tuple[FittedModel, float]:
    """A model of poker hands, and its error on others."""
    table = poker_hands(rows + 2_000)
    fitter = TupleFitter(table, draw_reservoir(table.labels, np.arange(rows), 0))
    model = fitter.fit(choice)
    tested = model.model.prepare(table, np.arange(rows, rows + 2_000))
    return model, worth_of(model.model.log_probabilities(tested), tested.labels).error


def test_pairs_of_cards_tell_pairs() -> None:
    """The oracle: ALR of order 2 has hardly an error, where single cards know nothing, and AnJE already has few."""
    assert fitted(18_000, TupleChoice(2))[1] < 0.001
    assert fitted(4_000, TupleChoice(1))[1] > 0.4
    table = poker_hands(20_000)
    counted = count_model(table, np.arange(18_000), all_tuples(10, 2))
    tested = counted.prepare(table, np.arange(18_000, 20_000))
    assert worth_of(counted.log_probabilities(tested), tested.labels).error < 0.05


@pytest.mark.parametrize(
    "choice",
    [
        TupleChoice(2, "cv"),
        TupleChoice(2, "random"),
        TupleChoice(2, by_level=True),
        TupleChoice(2, "cv", by_level=True),
        TupleChoice(2, of_features=True),
    ],
)
def test_all_tuples_are_no_selection_to_the_bit(choice: TupleChoice) -> None:
    """Whatever they would be selected by, at once or level by level."""
    plain, other = fitted(600, TupleChoice(2)), fitted(600, choice)
    assert other[0].model.state.tobytes() == plain[0].model.state.tobytes()
    assert other[0].step == plain[0].step


@pytest.mark.parametrize("validation", ["learned", "reservoir"])
@pytest.mark.parametrize("score", ["mi", "cv"])
def test_the_pair_that_matters_is_selected(validation: Validation, score: TupleScore) -> None:
    """By each score, with each way to validate; one that is drawn is another."""
    table = exclusive_or(2_000, 5)
    folds = draw_reservoir(table.labels, np.arange(2_000), 0)
    members = all_tuples(7, 2)
    choice = TupleChoice(2, score, 0.05, validation=validation)
    assert score_tuples(table, folds, choice, members).argmax() == 0
    assert TupleFitter(table, folds).fit(choice).model.known.members.tolist() == [[0, 1]]
    drawn = score_tuples(table, folds, choice._replace(score="random"), members)
    assert len(set(drawn)) == len(members)


def test_scores_are_kept_and_their_time_is_counted() -> None:
    """A second share of the same score is a selection of the same scores, and says how long it would have taken."""
    table = noisy_classes(4_000)
    folds = draw_reservoir(table.labels, np.arange(4_000), 0)
    fitter = TupleFitter(table, folds)
    first = fitter.fit(TupleChoice(2, "cv", 0.5))
    second = fitter.fit(TupleChoice(2, "cv", 0.5))
    assert first.model.state.tobytes() == second.model.state.tobytes()
    assert second.seconds > 0.3 * first.seconds
    alone = TupleFitter(table, folds).fit(TupleChoice(2, "cv", 0.5))
    assert alone.model.state.tobytes() == first.model.state.tobytes()


def test_scores_are_kept_of_the_tuples_they_are_of() -> None:
    """The three single attributes of a table, and its one triple, are the same three numbers in a row."""
    table = exclusive_or(900, 1)
    fitter = TupleFitter(table, draw_reservoir(table.labels, np.arange(900), 0))
    for order, kept in ((1, 2), (3, 1), (2, 2)):
        assert fitter.fit(TupleChoice(order, "mi", 0.6)).model.known.members.shape == (kept, order)


def test_the_order_is_raised_while_it_helps() -> None:
    """Exclusive or of two needs pairs; of independent attributes that each tell a little, one at a time is best."""
    table = exclusive_or(2_000, 2)
    assert choose_order(table, draw_reservoir(table.labels, np.arange(2_000), 0), 4) >= 2
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 2_000)
    codes = np.where(rng.random((2_000, 6)) < 0.2, labels[:, None], rng.integers(0, 2, (2_000, 6)))
    independent = discrete(codes, labels)
    assert choose_order(independent, draw_reservoir(independent.labels, np.arange(2_000), 0), 4) == 1


def test_a_class_that_training_lacks_is_no_fault() -> None:
    """It is unlikely, and has a probability."""
    table = noisy_classes(200, 3)
    rows = np.flatnonzero(table.labels < 2)
    fit = TupleFitter(table, Folds(rows[20:], rows[:20], 0)).fit(TupleChoice(2))
    found = fit.model.log_probabilities(fit.model.prepare(table, np.arange(200)))
    assert np.isfinite(found).all()
    assert (found[:, 2] < -2).all()
