"""One pass of any learner over a part of a set, and its figures on the rest."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.scores import Scores
from stream_apple.offline.evaluation import share_of_wrong_sides, split, weighted_mean
from stream_apple.offline.schedule import Schedule, epoch_ends


class Learning(Protocol):
    """What a pass needs of a learner: a part of `stream_apple.learners.port.Learner`."""

    def learn(self, batch: Batch, start: int, stop: int, scores: Scores) -> None:
        """Score, then learn, rows [start, stop)."""

    def score_rows(self, batch: Batch, start: int, stop: int, scores: Scores) -> None:
        """Write the scores of rows [start, stop)."""

    def end_epoch(self) -> object:
        """End an epoch."""

    @property
    def features_per_example(self) -> float:
        """The mean number of features of the examples learned."""


AnyLearner = TypeVar("AnyLearner", bound=Learning)


class SplitFigures(NamedTuple):
    """Figures of a pass. Errors are shares of wrong signs; None if there are not just two labels, or no examples.

    seconds  of learning and testing
    """

    progressive_loss: float | None
    progressive_error: float | None
    test_loss: float | None
    test_error: float | None
    features_per_example: float
    seconds: float


def pass_over_split(
    make: Callable[[], AnyLearner], batch: Batch, schedule: Schedule
) -> tuple[AnyLearner, SplitFigures]:
    """Learn the first part of the batch in one pass, then score the rest; return the learner and its figures.

    ModelError if a score is not finite.
    """
    trained, tested = split(batch, schedule)
    _pass(make(), trained.select(np.arange(min(2, len(trained.labels)))), [0])  # what is compiled is not measured
    learner, started = make(), time.perf_counter()
    scores = _pass(learner, trained, epoch_ends(len(trained.labels), schedule))
    of_tested = scores_of(learner, tested)
    seconds = time.perf_counter() - started
    return learner, SplitFigures(
        weighted_mean(scores.losses, trained),
        share_of_wrong_sides(batch.labels, trained, scores.predictions),
        weighted_mean(of_tested.losses, tested),
        share_of_wrong_sides(batch.labels, tested, of_tested.predictions),
        learner.features_per_example,
        seconds,
    )


def passes_over_splits(
    make: Callable[[], AnyLearner], batch: Batch, seeds: int, epochs: int = 1
) -> Iterator[tuple[AnyLearner, SplitFigures]]:
    """Yield the learner and its figures for each of the splits 0 .. seeds - 1."""
    for seed in range(seeds):
        yield pass_over_split(make, batch, Schedule(epochs, seed=seed))


def scores_of(learner: Learning, batch: Batch) -> Scores:
    """Return the scores of all examples; the learner does not change."""
    scores = Scores.empty(len(batch.labels))
    learner.score_rows(batch, 0, len(batch.labels), scores)
    return scores


def predictions_after(learner: Learning, trained: Batch, tested: Batch) -> NDArray[np.float64]:
    """Learn a part in one epoch, and return the predictions for another, float64[n]."""
    _pass(learner, trained, [len(trained.labels)])
    return scores_of(learner, tested).predictions


def _pass(learner: Learning, batch: Batch, ends: list[int]) -> Scores:
    """Learn all examples; epochs end where `ends` says, but not after the last example."""
    size = len(batch.labels)
    scores = Scores.empty(size)
    for start, stop in itertools.pairwise([0, *(end for end in ends if 0 < end < size), size]):
        learner.learn(batch, start, stop, scores)
        if stop < size:
            learner.end_epoch()
    return scores
