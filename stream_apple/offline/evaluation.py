"""One pass over examples: progressive validation on the first part, test on the rest.

The protocol of Agarwal et al. 2014, section 3.1: a random split, one pass, epochs of equal length.
"""

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.loss_functions import write_losses
from stream_apple.learners.losses import Loss
from stream_apple.learners.port import Learner, LearnerOptions
from stream_apple.learners.progress.progressive_loss import ProgressiveLoss, progress_of
from stream_apple.learners.scores import EARLY_STRIDE, NO_EARLY, Scores
from stream_apple.learners.systems import new_learner, warm_up_learning
from stream_apple.offline.binary_measures import quality_of
from stream_apple.offline.late_labels import in_turn, stride_of
from stream_apple.offline.schedule import Schedule, epoch_ends

_Predictor = Literal["expanded", "linear"]

ALIKE = 0.005
"""If losses differ by a smaller share, the methods count as equally good."""

_AT_ONCE = 8192
"""So many rows, at most, come while others are learned in one call."""

NO_LABELS = "nothing was learned: no training example has a label (`--label FIELD` says where it is)"


class Result(NamedTuple):
    """What one pass showed. Losses and errors are weighted means; None if there is nothing to average.

    Linear is the predictor that learns alongside, on the same examples in the same order, as `method` "linear" would on
    the same splines and in the same units of labels.
    The best constant is the one that is best for the training examples, in hindsight. Errors are shares of wrong
    classes (softmax loss), or, if there are just two labels, of examples on the wrong side of the middle between them.
    Seconds are those of learning and testing, without reading.
    """

    method: str
    examples: int
    progressive_loss: float | None
    linear_progressive_loss: float | None
    best_constant_loss: float | None
    progressive_error: float | None
    test_loss: float | None
    linear_test_loss: float | None
    test_error: float | None
    features_per_example: float | None
    parents: int
    seconds: float

    def verdict(self, alone: float | None = None) -> str:
        """Say whether the method was worth it, by its progressive loss and linear's; or that there was no label.

        alone  the progressive loss of the expanded predictor, if a mixture was learned
        """
        subject = self.method if alone is None else "the mixture"
        reference, name = self.linear_progressive_loss, "linear"
        if self.method == "linear":
            reference, name = self.best_constant_loss, "the best constant"
        if self.progressive_loss is None or reference is None:
            return NO_LABELS
        if reference == 0.0:
            return f"{subject} is {'worse than' if self.progressive_loss else 'as good as'} {name}, whose loss is 0"
        change = self.progressive_loss / reference - 1.0
        besides = "" if alone is None else f"; the expanded predictor would be {_difference(alone / reference - 1.0)}"
        if abs(change) < ALIKE:
            said = f"{subject} is as good as {name}: its progressive loss differs by less than {ALIKE:.1%}"
            return said + besides
        worse = "worse than" if change > 0 else "better than"
        return f"{subject} is {worse} {name}: its progressive loss is {_difference(change)} {name}'s{besides}"


class Run(NamedTuple):
    """The result of one pass, and what it was computed from.

    further  name -> a measure of a predictor: the mean losses of the expanded predictor (None unless a mixture is
             published), AUC and calibration, and, with the softmax loss, the shares of wrong classes
    scores   of the training examples, before each was learned
    trained  the training examples in the order learned
    loss     that was minimized
    """

    result: Result
    further: Mapping[str, float | None]
    scores: Scores
    trained: Batch
    loss: Loss

    @property
    def mixed(self) -> bool:
        """Return whether the published score is that of a mixture."""
        return self.further["expanded_progressive_loss"] is not None

    def facts(self) -> dict[str, object]:
        """Return all figures by flat names."""
        return {**self.result._asdict(), **self.further}

    def verdict(self) -> str:
        """Return `Result.verdict` for this run."""
        return self.result.verdict(self.further["expanded_progressive_loss"])

    def losses_of(self, predictor: _Predictor) -> NDArray[np.float64]:
        """Return the loss of a predictor's own score of each training example, float64[n]; NaN without a label."""
        return _losses_of(predictor, self.scores, self.trained, self.loss)


def split(batch: Batch, schedule: Schedule) -> tuple[Batch, Batch]:
    """Return the training examples in the order learned, and the test examples."""
    order = np.arange(len(batch.labels))
    if not schedule.keep_order:
        order = np.random.default_rng(schedule.seed).permutation(order)
    trained_size = len(order) - int(len(order) * schedule.test_fraction)
    return batch.select(order[:trained_size]), batch.select(order[trained_size:])


class Learned(NamedTuple):
    """What learning showed, besides scores.

    progress  the losses of all training examples, in their order
    parents   how many the model has
    """

    progress: ProgressiveLoss
    features_per_example: float | None
    parents: int
    seconds: float


def evaluate(batch: Batch, options: LearnerOptions, schedule: Schedule, known: NDArray[np.int64] | None = None) -> Run:
    """Learn the first part of the batch in one pass, then score the rest.

    known  int64[n], ascending: for each example, how many examples have known labels when it comes, and so are learned
           before it is scored (`late_labels.py`); None: all examples before it. Measures are those of the scores that
           were given when examples came.
    """
    trained, tested = split(batch, schedule)
    trained_size = len(trained.labels)
    early = known is not None and options.mixed and options.pending_labels > 0
    learner, scores = new_learner(options), Scores.empty(trained_size, early=early)
    warm_up_learning(options)

    started, progress = time.perf_counter(), learner.progress
    ends = epoch_ends(trained_size, schedule)
    if known is None:
        _learn(learner, trained, 0, trained_size, ends, scores)
    else:
        progress = _learn_late(learner, trained, known[:trained_size], ends, scores)
    test_scores = Scores.empty(len(tested.labels))
    learner.score_rows(tested, 0, len(tested.labels), test_scores)
    seconds = time.perf_counter() - started

    features = learner.features_per_example if learner.examples else None
    learned = Learned(progress, features, parents_of(learner), seconds)
    return run_of(options, learned, (trained, scores), (tested, test_scores))


def _learn(
    learner: Learner,
    batch: Batch,
    first: int,
    last: int,
    ends: Sequence[int],
    scores: Scores,
    early: NDArray[np.float32] = NO_EARLY,
) -> None:
    """Learn rows [first, last), and end the epochs that end there, but for one at the end of the batch."""
    within = [end for end in ends if first < end < last]
    for start, stop in itertools.pairwise([first, *within, last]):
        learner.learn(batch, start, stop, scores, early)
        if stop in ends and stop < len(batch.labels):
            learner.end_epoch()


def _learn_late(
    learner: Learner, batch: Batch, known: NDArray[np.int64], ends: Sequence[int], scores: Scores
) -> ProgressiveLoss:
    """Score each row when it comes, and learn it when its label does; return the losses of these scores."""
    count, start, learned, asked = len(known), 0, 0, progress_of(learner.options)
    waiting = int((np.arange(count) - known).max(initial=0))
    stride = stride_of(waiting, max(1, learner.options.pending_labels))
    while start < count:
        # What is learned needs what was kept when it came, so no row of a portion comes and is learned in it.
        stop = min(int(np.searchsorted(known, start, "right")), start + _AT_ONCE)
        rows, coming = in_turn(known, start, stop, learned)
        portion = batch.select(rows)
        portion = portion._replace(weights=np.where(coming, 0.0, portion.weights))  # scored, with a loss, not learned
        early = scores.early[rows] if len(scores.early) else NO_EARLY
        found = Scores.empty(len(rows), early=len(early) > 0)
        ended = np.flatnonzero(~coming & np.isin(rows + 1, ends[:-1])) + 1
        for number, (first, last) in enumerate(itertools.pairwise([0, *ended.tolist(), len(rows)])):
            if number:
                learner.end_epoch()
            learner.learn(portion, first, last, found, early)
        for name in Scores._fields[: None if len(early) else -1]:
            getattr(scores, name)[start:stop] = getattr(found, name)[coming]
        if len(early):
            scores.early[start:stop, EARLY_STRIDE] = stride
            scores.early[np.flatnonzero(np.arange(start, stop) % stride) + start] = np.inf
        start, learned = stop, int(known[stop - 1])
    _learn(learner, batch, learned, count, ends, Scores.empty(count), scores.early)
    asked.add(batch, scores, 0, count)
    return asked


def parents_of(learner: Learner) -> int:
    """Return how many monomials of the learner are parents, without the constant."""
    return int(learner.census().parents[1:].sum())


def run_of(
    options: LearnerOptions, learned: Learned, training: tuple[Batch, Scores], testing: tuple[Batch, Scores]
) -> Run:
    """Return the run with all measures, of the examples learned and of those only scored, each with their scores."""
    (trained, scores), (tested, test_scores) = training, testing
    loss = options.objective
    whole = learned.progress.report("whole")
    labels = np.concatenate([trained.labels, tested.labels])
    errors = _class_errors(training, testing) if options.classes else {}
    result = Result(
        method=options.name,
        examples=len(labels),
        progressive_loss=_number(whole.loss),
        linear_progressive_loss=_number(whole.linear_loss),
        best_constant_loss=_variance_of(trained) if loss.real_valued else _number(whole.best_constant_loss),
        progressive_error=errors["progressive_error"]
        if errors
        else share_of_wrong_sides(labels, trained, scores.predictions),
        test_loss=weighted_mean(test_scores.losses, tested),
        linear_test_loss=weighted_mean(_losses_of("linear", test_scores, tested, loss), tested),
        test_error=errors["test_error"] if errors else share_of_wrong_sides(labels, tested, test_scores.predictions),
        features_per_example=learned.features_per_example,
        parents=learned.parents,
        seconds=learned.seconds,
    )
    alone = {
        f"expanded_{name}_loss": weighted_mean(_losses_of("expanded", own, part, loss), part) if options.mixed else None
        for name, (part, own) in (("progressive", training), ("test", testing))
    }
    quality = quality_of(labels, training, testing, loss, mixed=options.mixed)
    return Run(result, {**alone, **quality, **errors}, scores, trained, loss)


def _class_errors(training: tuple[Batch, Scores], testing: tuple[Batch, Scores]) -> dict[str, float | None]:
    """Return each predictor's shares of wrong classes, and that of the best constant, by name.

    The best constant always predicts the most frequent class of the training examples.
    """

    def errors(name: str, part: Batch, scores: Scores) -> dict[str, float | None]:
        by = {"": scores.predictions, "linear_": scores.linear, "expanded_": scores.expanded}
        return {f"{prefix}{name}_error": weighted_mean(each != part.labels, part) for prefix, each in by.items()}

    trained, constant = training[0], None
    known = ~np.isnan(trained.labels)
    if (total := float(trained.weights[known].sum())) > 0:
        of_classes = np.bincount(trained.labels[known].astype(np.int64), trained.weights[known])
        constant = 1.0 - float(of_classes.max()) / total
    return {**errors("progressive", *training), "best_constant_error": constant, **errors("test", *testing)}


def _variance_of(part: Batch) -> float | None:
    """Return the loss of the best constant with the squared loss: the variance of the labels; None if there is none.

    The running sums of squares of a model would lose its digits where labels are large beside their differences.
    """
    labels = part.labels[~np.isnan(part.labels)]
    if not len(labels):
        return None
    apart = part.labels - labels[0]  # which leaves 0 if all labels are equal
    mean = weighted_mean(apart, part)
    return None if mean is None else weighted_mean((apart - mean) ** 2, part)


def _difference(change: float) -> str:
    """Spell the distance from the reference, which is a share of it."""
    return f"{abs(change):.1%} {'above' if change > 0 else 'below'}"


def _number(loss: float) -> float | None:
    return None if math.isnan(loss) else loss


def _losses_of(predictor: _Predictor, scores: Scores, part: Batch, loss: Loss) -> NDArray[np.float64]:
    losses: NDArray[np.float64] = np.empty(len(part.labels))
    if loss.multiclass:
        return scores.expanded_losses if predictor == "expanded" else scores.linear_losses
    write_losses(loss.number, scores.expanded if predictor == "expanded" else scores.linear, part.labels, losses)
    return losses


def share_of_wrong_sides(whole: NDArray[np.float64], part: Batch, scores: NDArray[np.float64]) -> float | None:
    """Return the share of scores on the wrong side of the middle of the two labels; None if there are not just two."""
    labels = np.unique(whole[~np.isnan(whole)])
    if len(labels) != 2:
        return None
    # Scores of the logistic loss are log-odds, whose middle is 0: that of its labels -1 and 1 too.
    middle = float(labels.mean())
    return weighted_mean((scores > middle) != (part.labels > middle), part)


def weighted_mean(values: NDArray[np.float64] | NDArray[np.bool_], part: Batch) -> float | None:
    """Return the mean of values of examples that have labels, by importance weight; None if there is none."""
    labelled = ~np.isnan(part.labels)
    weight = float(part.weights[labelled].sum())
    return float((values * part.weights)[labelled].sum()) / weight if weight > 0 else None
