"""One pass over examples: progressive validation on the first part, test on the rest.

The protocol of Agarwal et al. 2014, section 4: a random split, one pass, epochs of equal length.
"""

import itertools
import math
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner import Learner, Options, Scores
from stream_apple.core.update import loss_of
from stream_apple.study.dataset import select


class Plan(NamedTuple):
    """How the examples are used.

    epochs         end an epoch after each `epochs`-th part of the training examples; or,
    doubling       if positive, after doubling * 2^k examples (k = 0, 1, ...)
    test_fraction  share of the examples, at the end, that is only scored
    seed           of the shuffle; None keeps the order
    """

    epochs: int = 6
    doubling: int = 0
    test_fraction: float = 0.2
    seed: int | None = 0


class Result(NamedTuple):
    """What one pass showed. Losses and errors are weighted means; None where there is nothing to average.

    Errors are shares of examples on the wrong side of the middle between the labels, where there are just two.
    Seconds are those of learning and testing, without reading.
    """

    method: str
    examples: int
    progressive_loss: float | None
    progressive_error: float | None
    test_loss: float | None
    test_error: float | None
    features_per_example: float | None
    parents: int
    seconds: float


class Run(NamedTuple):
    """The result, and the training examples in the order learned with their scores."""

    result: Result
    scores: Scores
    trained: Batch
    logistic: bool

    def linear_losses(self) -> NDArray[np.float64]:
        """float64[n]: the linear predictor's loss of each training example; NaN without a label."""
        return _losses(self.scores.linear, self.trained.labels, logistic=self.logistic)


def epoch_ends(examples: int, plan: Plan) -> list[int]:
    """After how many training examples an epoch ends; the last end is `examples`, where nothing is expanded."""
    if plan.doubling > 0:
        doubled = (plan.doubling << k for k in itertools.count())
        return [*itertools.takewhile(lambda end: end < examples, doubled), examples]
    length = max(1, math.ceil(examples / plan.epochs))
    return [*range(length, examples, length), examples]


def evaluate(batch: Batch, options: Options, plan: Plan) -> Run:
    """Learn the first part of the batch in one pass, then score the rest."""
    order = np.arange(len(batch.labels))
    if plan.seed is not None:
        order = np.random.default_rng(plan.seed).permutation(order)
    trained_size = len(order) - int(len(order) * plan.test_fraction)
    trained, tested = select(batch, order[:trained_size]), select(batch, order[trained_size:])
    learner, scores = Learner(options), Scores.empty(trained_size)
    learner.warm_up()

    started = time.perf_counter()
    for start, stop in itertools.pairwise([0, *epoch_ends(trained_size, plan)]):
        learner.learn(trained, start, stop, scores)
        if stop < trained_size:
            learner.end_epoch()
    test_scores = learner.predict(tested)
    seconds = time.perf_counter() - started

    logistic = options.loss == "logistic"
    progressive_loss = learner.progress.progressive_loss
    result = Result(
        method=options.method,
        examples=len(batch.labels),
        progressive_loss=None if math.isnan(progressive_loss) else progressive_loss,
        progressive_error=_error(batch, trained, scores.predictions),
        test_loss=_mean(_losses(test_scores, tested.labels, logistic=logistic), tested),
        test_error=_error(batch, tested, test_scores),
        features_per_example=learner.features_per_example if learner.examples else None,
        parents=int(learner.parents_by_degree()[1:].sum()),
        seconds=seconds,
    )
    return Run(result, scores, trained, logistic)


def _losses(scores: NDArray[np.float64], labels: NDArray[np.float64], *, logistic: bool) -> NDArray[np.float64]:
    """The loss of each score."""
    return np.array([loss_of(logistic, score, label) for score, label in zip(scores, labels, strict=True)])


def _error(whole: Batch, part: Batch, scores: NDArray[np.float64]) -> float | None:
    """Share of wrong signs, with the middle of the two labels as zero; None if there are not just two."""
    labels = np.unique(whole.labels[~np.isnan(whole.labels)])
    if len(labels) != 2:
        return None
    # Scores of the logistic loss are log-odds, whose middle is 0: that of its labels -1 and 1 too.
    middle = float(labels.mean())
    wrong: NDArray[np.float64] = ((scores > middle) != (part.labels > middle)).astype(np.float64)
    return _mean(wrong, part)


def _mean(values: NDArray[np.float64], part: Batch) -> float | None:
    labelled = ~np.isnan(part.labels)
    weight = float(part.weights[labelled].sum())
    return float((values * part.weights)[labelled].sum()) / weight if weight > 0 else None
