"""What is counted only to be shown: of the right predictors, outside the digest, and kept apart from the state."""

import math
from dataclasses import replace

import numpy as np
import pytest
from learners.apple.test_learner import batch_of, planted_rows
from support.restoring import restored

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import LossName, Options
from stream_apple.learners.scores import Scores

ROWS = planted_rows(600, seed=2, binary=True)
BATCH = batch_of(ROWS)
MIXED = Options(bits=10, loss="logistic")
PLAIN = Options(bits=10, loss="logistic", mixture=False)
SPANS = ("whole", "epoch", "last_epoch", "recent")


def learned(options: Options, stop: int = 600) -> tuple[Learner, Scores]:
    """A learner of the first rows, with epochs of 150."""
    learner, scores = Learner(options), Scores.empty(600)
    for start in range(0, stop, 150):
        if start:
            learner.end_epoch()
        learner.learn(BATCH, start, start + 150, scores)
    return learner, scores


def logistic(scores: np.ndarray[tuple[int], np.dtype[np.float64]], rows: slice) -> float:
    """The mean loss of these rows' scores."""
    labels, weights = BATCH.labels[rows], BATCH.weights[rows]
    known = ~np.isnan(labels)
    return float(np.average(np.log1p(np.exp(-scores[rows] * labels))[known], weights=weights[known]))


def test_losses_of_all_predictors_are_those_of_their_scores() -> None:
    """Of what is published, of apple and of linear; since the start, in this epoch and in the last one."""
    learner, scores = learned(MIXED)
    for span, rows in (("whole", slice(0, 600)), ("epoch", slice(450, 600)), ("last_epoch", slice(300, 450))):
        report = learner.progress.report(span)  # type: ignore[arg-type]
        assert report.loss == pytest.approx(logistic(scores.predictions, rows), rel=1e-9)
        assert report.expanded_loss == pytest.approx(logistic(scores.expanded, rows), rel=1e-9)
        assert report.linear_loss == pytest.approx(logistic(scores.linear, rows), rel=1e-9)
    assert not np.array_equal(scores.expanded, scores.predictions)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_plain_learner_publishes_apple(loss: LossName) -> None:
    """Its loss is apple's, and nobody else's quality is kept."""
    learner, _ = learned(replace(PLAIN, loss=loss))
    assert set(learner.progress.quality("whole")) == {"published", "linear"}
    for span in SPANS:
        report = learner.progress.report(span)  # type: ignore[arg-type]
        assert report.expanded_loss == report.loss > 0.0


@pytest.mark.parametrize("options", [MIXED, PLAIN], ids=["mixed", "plain"])
def test_no_score_and_no_digest_depends_on_it(options: Options) -> None:
    """It may be lost: the model is the same."""
    learner, _ = learned(options)
    assert not set(learner.observed) & set(learner.sums)
    before = learner.digest()
    for array in learner.observed.values():
        array.view(np.uint8)[:] = 0
    assert learner.digest() == before
    twin, scores, others = restored(learned(options)[0]), Scores.empty(600), Scores.empty(600)
    twin.end_epoch()
    twin.learn(BATCH, 0, 600, scores)
    whole, _ = learned(options)
    whole.end_epoch()
    whole.learn(BATCH, 0, 600, others)
    np.testing.assert_array_equal(scores.predictions, others.predictions)
    assert twin.digest() == whole.digest()


@pytest.mark.parametrize("options", [MIXED, PLAIN], ids=["mixed", "plain"])
def test_restored_with_it_a_learner_shows_the_same(options: Options) -> None:
    """Now, and when both have learned on."""
    learner, _ = learned(options)
    twin = restored(learner)
    twin.restore_observed({name: array.copy() for name, array in learner.observed.items()})
    for _ in range(2):
        for span in SPANS:
            assert twin.progress.quality(span) == learner.progress.quality(span)  # type: ignore[arg-type]
            assert twin.progress.report(span) == learner.progress.report(span)  # type: ignore[arg-type]
        for each in (twin, learner):
            each.learn(BATCH, 0, 300, Scores.empty(600))
    assert not math.isnan(learner.progress.quality("whole")["linear"].auc)


def test_what_is_not_its_own_is_refused() -> None:
    """Arrays of another kind of learner have other sizes, and none may be missing; then nothing changes."""
    mixed, plain = learned(MIXED)[0], learned(PLAIN)[0]
    with pytest.raises(ValueError, match="quality_weights: expected float64"):
        mixed.restore_observed(plain.observed)
    twin = restored(mixed)
    before = {name: array.copy() for name, array in twin.observed.items()}
    with pytest.raises(ValueError, match="expected arrays quality_"):
        twin.restore_observed({name: array for name, array in mixed.observed.items() if name != "quality_weights"})
    assert all(np.array_equal(twin.observed[name], array, equal_nan=True) for name, array in before.items())
