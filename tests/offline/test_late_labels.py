"""Labels that come later than the features: what is known when, and that scores are those of River's own delay."""

import datetime as dt
from typing import Any

import numpy as np
import pytest
from river import base, metrics
from river.evaluate import progressive_val_score
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import EARLY_STRIDE, Scores
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.late_labels import in_turn, known_after_examples, known_after_time, stride_of
from stream_apple.offline.schedule import Schedule

COUNT = 300
LINEAR = Options(method="linear", bits=10, loss="logistic")
LOGISTIC, SQUARED = Options(loss="logistic", bits=12, mergeable=True), Options(bits=12)
IN_ORDER = Schedule(epochs=1, test_fraction=0.0, keep_order=True)


def stream(count: int = COUNT) -> Batch:
    """Five of forty features an example, whose signs are learned soon."""
    rng = np.random.default_rng(5)
    keys = np.concatenate([rng.choice(np.arange(1, 41, dtype=np.uint64), 5, replace=False) for _ in range(count)])
    weights = rng.normal(size=41)
    labels = np.sign(weights[keys.reshape(count, 5).astype(int)].sum(axis=1))
    return Batch(np.arange(0, 5 * count + 1, 5), keys, np.ones(5 * count, np.float32), labels, np.ones(count))


@pytest.mark.parametrize(
    ("delay", "expected"), [(1, [0, 1, 2, 3, 4]), (2, [0, 0, 1, 2, 3]), (4, [0, 0, 0, 0, 1]), (9, [0] * 5)]
)
def test_a_delay_in_examples(delay: int, expected: list[int]) -> None:
    """With 1 each label is known when the next example comes."""
    assert known_after_examples(5, delay).tolist() == expected


@pytest.mark.parametrize(
    ("delay", "expected"), [(0, [0, 1, 2, 3, 4]), (5, [0, 0, 0, 0, 4]), (10, [0, 0, 0, 0, 3]), (11, [0, 0, 0, 0, 1])]
)
def test_a_delay_in_time(delay: int, expected: list[int]) -> None:
    """Late examples come when the highest time before them did; what is due at the same time is known."""
    assert known_after_time(np.array([99, 100, 98, 100 + 2, 110]), delay).tolist() == expected


class Asked(base.Classifier):
    """Ours as a model of River's: rows of the stream are learned and scored one by one, when River says so."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.learner = Learner(LINEAR)
        self.scores: list[float] = []

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:  # noqa: ARG002  the batch has it
        """Learn the row that the features name."""
        self.learner.learn(self.batch, x["row"], x["row"] + 1, Scores.empty(len(self.batch.labels)))

    def predict_proba_one(self, x: dict[Any, Any], **_: Any) -> dict[Any, float]:
        """Note the score."""
        scores = Scores.empty(len(self.batch.labels))
        self.learner.score_rows(self.batch, x["row"], x["row"] + 1, scores)
        self.scores.append(float(scores.predictions[x["row"]]))
        chance = 1.0 / (1.0 + np.exp(-self.scores[-1]))
        return {True: chance, False: 1.0 - chance}


def asked_by_river(batch: Batch, moment: Any, delay: Any) -> list[float]:
    """The scores that River's progressive validation asks for."""
    model = Asked(batch)
    data: list[tuple[dict[Any, Any], Any]] = [
        ({"row": row, "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=row)}, label > 0)
        for row, label in enumerate(batch.labels)
    ]
    log_loss = metrics.LogLoss()
    progressive_val_score(data, model, log_loss, moment=moment, delay=delay)
    return model.scores


@pytest.mark.parametrize("delay", [1, 7, 100, 1000])
def test_scores_are_those_that_river_asks_for(delay: int) -> None:
    """To the bit, by examples and by time."""
    batch = stream()
    run = evaluate(batch, LINEAR, IN_ORDER, known_after_examples(COUNT, delay))
    assert run.scores.predictions.tolist() == asked_by_river(batch, None, delay)
    times = 1000 * np.arange(COUNT)
    by_time = evaluate(batch, LINEAR, IN_ORDER, known_after_time(times, 1000 * delay))
    assert by_time.scores.predictions.tolist() == asked_by_river(batch, "at", dt.timedelta(seconds=delay))


@pytest.mark.parametrize(
    "options", [LINEAR, Options(bits=12, loss="logistic"), Options(bits=12, loss="logistic", discretise="none")]
)
def test_without_a_delay_it_is_progressive_validation(options: Options) -> None:
    """Scores and measures, of epochs too, whatever prepares the examples.

    With the squared loss the usual score is clipped to a range that has the example's own label in it already.
    """
    batch, schedule = stream(), IN_ORDER._replace(epochs=4)
    usual, asked = (
        evaluate(batch, options, schedule),
        evaluate(batch, options, schedule, known_after_examples(COUNT, 1)),
    )
    assert asked.scores.predictions.tolist() == usual.scores.predictions.tolist()
    assert asked.result._replace(seconds=0) == usual.result._replace(seconds=0)


def test_what_happens_while_rows_come() -> None:
    """What is known when a row comes is learned just before it, in its order."""
    known = np.array([0, 0, 1, 1, 3, 3])
    rows, coming = in_turn(known, 2, 6, 0)
    assert rows.tolist() == [0, 2, 3, 1, 2, 4, 5]
    assert coming.tolist() == [False, True, True, False, False, True, True]
    rows, coming = in_turn(known, 5, 6, 3)
    assert (rows.tolist(), coming.tolist()) == ([5], [True])


def learned_one_by_one(batch: Batch, options: Options, known: list[int], ends: set[int]) -> Scores:
    """The scores of rows that come one by one, and are learned one by one when they are known."""
    learner, scores, learned = Learner(options), Scores.empty(len(known), early=True), 0
    unseen = Scores.empty(len(known))
    for row, count in enumerate(known):
        while learned < count:
            learner.learn(batch, learned, learned + 1, unseen, scores.early)
            learned += 1
            if learned in ends:
                learner.end_epoch()
        learner.score_rows(batch, row, row + 1, scores)
        scores.early[row, EARLY_STRIDE] = 1
    return scores


@pytest.mark.parametrize(
    ("delay", "options"),
    [
        (2, SQUARED),
        (40, LOGISTIC),
        (1000, SQUARED),
        pytest.param(2, LOGISTIC, marks=pytest.mark.long),
        pytest.param(40, SQUARED, marks=pytest.mark.long),
        pytest.param(1000, LOGISTIC, marks=pytest.mark.long),
    ],
)
def test_portions_change_no_bit(delay: int, options: Options) -> None:
    """A mixture that finds the unit of labels, makes splines and grows; a row without label, one of weight 0."""
    batch = stream(3_000)
    batch.values[:] = np.random.default_rng(3).normal(size=len(batch.values)).astype(np.float32)
    batch.labels[50], batch.weights[70] = np.nan, 0.0
    known = known_after_examples(3_000, delay)
    found = evaluate(batch, options, IN_ORDER._replace(epochs=5), known).scores
    expected = learned_one_by_one(batch, options, known.tolist(), {600, 1_200, 1_800, 2_400})
    for name in ("predictions", "losses", "expanded", "linear", "early"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


def test_what_comes_too_late_is_of_no_use() -> None:
    """A label that is never known while examples come leaves every score at its start; all is learned in the end."""
    batch = stream()
    run = evaluate(batch, LINEAR, IN_ORDER._replace(test_fraction=0.2), known_after_examples(COUNT, COUNT))
    assert run.result.progressive_loss == pytest.approx(np.log(2))
    assert run.result.test_loss is not None
    assert run.result.test_loss < np.log(2) - 0.05


def moods(count: int = 20_000) -> Batch:
    """Labels in runs of some three hundred, which last and are forgotten, and features that say nothing of them."""
    rng = np.random.default_rng(2)
    flips = rng.random(count) < 1 / 300
    likely = np.where(np.cumsum(flips) % 2, 0.6, 0.2)
    labels = np.where(rng.random(count) < likely, 1.0, -1.0)
    keys = rng.integers(1, 9, (count, 2)).astype(np.uint64) + np.array([0, 100], np.uint64)
    return Batch(np.arange(0, 2 * count + 1, 2), keys.ravel(), np.ones(2 * count, np.float32), labels, np.ones(count))


@pytest.mark.parametrize("delay", [60, 300])
def test_what_can_be_used_is_as_good_as_the_better_of_linear_and_constant(delay: int) -> None:
    """Learning from the scores of the time when labels come, it is not, as it trusts who is right too late."""
    batch = moods()
    count = len(batch.labels)
    known = known_after_examples(count, delay)
    positive = batch.labels > 0
    share = (np.concatenate([[0], np.cumsum(positive)])[known] + 0.5) / (known + 1.0)
    constant = -np.log(np.where(positive, share, 1 - share)).mean()
    early, late = (
        evaluate(batch, bare(loss="logistic", bits=12, pending_labels=pending), IN_ORDER, known).result
        for pending in (2_000, 0)
    )
    assert early.linear_progressive_loss == late.linear_progressive_loss is not None
    assert early.progressive_loss is not None
    assert early.progressive_loss < 1.01 * min(early.linear_progressive_loss, constant)
    assert late.progressive_loss is not None
    assert early.progressive_loss < late.progressive_loss


def test_what_is_sampled_where_too_many_wait() -> None:
    """A power of two, so that as many as are remembered wait at most."""
    assert [stride_of(waiting, 100) for waiting in (0, 100, 101, 200, 401)] == [1, 1, 2, 2, 8]


def test_a_label_that_comes_at_once_is_not_late() -> None:
    """Whatever is remembered, scores are those of progressive validation."""
    batch = moods(500)
    options = Options(loss="logistic", bits=12)
    at_once = evaluate(batch, options, IN_ORDER).scores
    known = evaluate(batch, options, IN_ORDER, known_after_examples(500, 1)).scores
    np.testing.assert_array_equal(known.predictions, at_once.predictions)
