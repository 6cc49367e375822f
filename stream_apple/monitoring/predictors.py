"""Reports on a model's predictors: their losses and quality by span, and their weights in the mixture.

Spans are named as the labels of metrics are: start, epoch, last_epoch, recent.
"""

from typing import NamedTuple

from stream_apple.learners.port import Description, Learner
from stream_apple.learners.progress.class_quality import ClassReport
from stream_apple.learners.progress.predictor_quality import QualityReport, Span
from stream_apple.learners.progress.progressive_loss import LossReport
from stream_apple.stream.model.early_scores import EarlyScores

_SPANS: dict[str, Span] = {"start": "whole", "epoch": "epoch", "last_epoch": "last_epoch", "recent": "recent"}


class MixtureView(NamedTuple):
    """Says how the published score is mixed; both are empty if it is one predictor's score.

    weights  of each predictor's score in it, by name; they may be negative, and need not sum to 1
    shares   how far predictors are trusted, by name
    """

    weights: dict[str, float]
    shares: dict[str, float]


class AskedView(NamedTuple):
    """Says what became of the scores of examples that came without a label.

    examples  how many scores are judged, pending and forgotten
    losses    by span and predictor: published, linear, constant; empty before a score is judged
    """

    examples: dict[str, int]
    losses: dict[str, dict[str, float]]


class ClassView(NamedTuple):
    """Weight and error of one class, given by its number, since the start and recently."""

    number: int
    start: ClassReport
    recent: ClassReport


def classes_of(learner: Learner, most: int) -> tuple[ClassView, ...]:
    """Return the `most` frequent classes so far, the most frequent first; none if labels are no classes."""
    progress = learner.progress
    pairs = zip(progress.class_reports("whole"), progress.class_reports("recent"), strict=True)
    found = [ClassView(number, *pair) for number, pair in enumerate(pairs) if pair[0].weight > 0.0]
    return tuple(sorted(found, key=lambda each: -each.start.weight)[:most])


def losses_of(learner: Learner) -> dict[str, LossReport]:
    """Return the mean losses of the learner's predictors in each span."""
    return {name: learner.progress.report(span) for name, span in _SPANS.items()}


def asked_of(early: EarlyScores) -> AskedView:
    """Return what became of scores whose labels come later."""
    examples = {"judged": early.judged, "pending": early.pending, "forgotten": early.forgotten}
    reports = {name: early.asked.report(span) for name, span in _SPANS.items()} if early.judged else {}
    losses = {
        name: {"published": each.loss, "linear": each.linear_loss, "constant": each.best_constant_loss}
        for name, each in reports.items()
    }
    return AskedView(examples, losses)


def qualities_of(learner: Learner) -> dict[str, dict[str, QualityReport]]:
    """Return the quality of each predictor in each span."""
    return {name: learner.progress.quality(span) for name, span in _SPANS.items()}


def mixture_of(described: Description) -> MixtureView:
    """Return how a learner mixes its predictors' scores now."""
    return MixtureView(dict(described.weights), dict(described.shares))
