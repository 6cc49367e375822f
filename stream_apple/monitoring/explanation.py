"""Why a row has its score: how much each feature, and each product of features, adds to it, by name.

A score is given as a sum. Its terms are in a fixed order, the largest in size first; added one after another in
float64, from 0.0 on, they give the score to the last bit.

With a mixture, a weight is the sum of the predictors' weights, each times the predictor's share in the published score.
This holds to first order: scores are bounded, and shares mix probabilities or losses, not scores. The remainder is one
term, REST.

A model of classes has a score for each class: the logarithm of its probability, less the mean of these logarithms. So
what all classes have in common is left out, which changes no probability: softmax of the scores gives them back.
"""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.codec.feature_names import Names
from stream_apple.learners.apple.learner import Learner, as_apple
from stream_apple.learners.apple.multiclass.layout import BLOCK_OF_AVERAGES, BLOCK_OF_LINEAR_WEIGHTS, BLOCK_OF_WEIGHTS
from stream_apple.learners.apple.state.table import Table
from stream_apple.learners.apple.state.weights import APPLE, AVERAGE, LINEAR, weights_at
from stream_apple.learners.port import Learner as Port
from stream_apple.learners.scores import Scores
from stream_apple.monitoring.inspection import view_monomials
from stream_apple.monitoring.monomial_views import Monomial, MonomialFormatter

CONSTANT = "(constant)"
REST = "(rest)"
"""The remainder that no feature explains: scores are bounded, and a mixture is not quite the weighted sum of scores."""
ROUNDING = "(rounding)"
"""The remainder after REST, which is itself rounded; it is there only if the sum would not be exact without it."""

_CLASS_BLOCKS = {"linear": BLOCK_OF_LINEAR_WEIGHTS, "average": BLOCK_OF_AVERAGES, "apple": BLOCK_OF_WEIGHTS}
"""Predictor of a mixture of classes -> its block of a row of `class_weights`."""


class Contribution(NamedTuple):
    """Says what one feature adds to a score.

    name        of the feature, or of the product; CONSTANT, REST, or ROUNDING
    value       of the feature in the row
    weight      by which the score changes for each unit of the value
    amount      weight times value; the amounts of all contributions sum to the score
    predictors  what it adds to the score of each predictor of the mixture, in the order of `Explanation.predictors`;
                empty if there is one predictor, and for REST and ROUNDING
    """

    name: str
    value: float
    weight: float
    amount: float
    predictors: tuple[float, ...] = ()


class Predictor(NamedTuple):
    """Describes one of the predictors that are mixed.

    share  of its score in the published one, to first order; the shares need not sum to 1
    score  the sum of all features, before it is bounded
    """

    name: str
    share: float
    score: float


class Explanation(NamedTuple):
    """Holds one score as a sum.

    score          the sum of the contributions, added one after another in their order
    contributions  the largest in size first; then REST, and ROUNDING if it is needed
    predictors     of a mixture; empty if there is one predictor
    label          the class that has this score; None if there is one score
    """

    score: float
    contributions: list[Contribution]
    predictors: list[Predictor]
    label: int | None = None

    def of_score(self, score: float) -> Self:
        """Return the same contributions of features as parts of another score: REST makes up the difference."""
        named = [each for each in self.contributions if each.name not in {REST, ROUNDING}]
        return self._replace(score=score, contributions=_summing_to(score, named))


def total_of(contributions: Sequence[Contribution]) -> float:
    """Return the sum of the contributions, added one after another in float64, from 0.0 on."""
    total = 0.0
    for each in contributions:  # `sum` compensates what is rounded, from Python 3.12 on
        total += each.amount
    return total


def explain_scores(model: Port, names: Names, batch: Batch) -> list[Explanation]:
    """Return the score of a batch's only row as a sum; with classes, the score of each class, in their order."""
    learner = as_apple(model)
    places, values, score = learner.active_features(batch)
    table, options = learner.table, learner.options
    constant = len(table.slots) - 1
    formatter = MonomialFormatter(learner, names)
    named = [CONSTANT if place == constant else formatter.monomial(place).name for place in places.tolist()]
    if options.classes:
        scores = Scores.empty(1, options.classes)
        learner.score_rows(batch, 0, 1, scores)
        logs = np.log(scores.all_probabilities[0])
        shares, weights = _class_weights(learner, table, places)
        return [
            _explained(named, values, shares, weights[:, :, label], float(centred), label)
            for label, centred in enumerate((logs - logs.mean()).tolist())
        ]
    shares, weights = _weights(learner, table, places)
    # Kernels have labels that are amounts in units; their centre is the score if nothing has been learned.
    centre, width = learner.units.scale
    centres = np.where(places == constant, centre, 0.0)
    return [_explained(named, values, shares, width * weights, score, None, centres)]


def explain_row(model: Port, names: Names, batch: Batch, label: float | None = None) -> list[Contribution]:
    """Return the contributions to the score of a batch's only row, the largest in size first, and REST last.

    label  the class whose score it is; None: the most probable one. ValueError if the model has no such class, or only
           one score.
    """
    learner = as_apple(model)
    classes = learner.options.classes
    if label is not None and label not in range(classes):
        expected = f"a class from 0 to {classes - 1}" if classes else "None for a model with one score"
        raise ValueError(f"label: expected {expected}, found {label!r}")
    found = explain_scores(learner, names, batch)
    return (of_highest_score(found) if label is None else found[int(label)]).contributions


def of_highest_score(explanations: Sequence[Explanation]) -> Explanation:
    """Return the explanation of the highest score, the first one among equals."""
    return max(explanations, key=lambda each: each.score)


def heaviest(model: Port, names: Names, top: int) -> list[Monomial]:
    """Return the `top` features and products that matter most, the heaviest first; ValueError for no number of them."""
    learner = as_apple(model)
    if not isinstance(top, Integral) or top < 0:
        raise ValueError(f"top: expected a whole number from 0 on, found {top!r}")
    return list(view_monomials(learner, names, top).top)


def _explained(
    names: Sequence[str],
    values: NDArray[np.float32],
    shares: dict[str, float],
    weights: NDArray[np.float64],
    score: float,
    label: int | None,
    centre: NDArray[np.float64] | None = None,
) -> Explanation:
    """Return a score as a sum.

    weights  float64[predictors, n]
    centre   float64[n], to be added to the weights, of every predictor and of the whole alike
    """
    added = np.zeros(len(names)) if centre is None else centre
    whole = np.fromiter(shares.values(), np.float64) @ weights + added
    parts = ((weights + added) * values).T.tolist() if len(shares) > 1 else [()] * len(names)
    found = [
        Contribution(name, value, weight, value * weight, tuple(part))
        for name, value, weight, part in zip(names, values.tolist(), whole.tolist(), parts, strict=True)
    ]
    found.sort(key=lambda each: -abs(each.amount))
    predictors = [
        Predictor(name, share, math.fsum(each.predictors[number] for each in found))
        for number, (name, share) in enumerate(shares.items() if len(shares) > 1 else ())
    ]
    return Explanation(score, _summing_to(score, found), predictors, label)


def _summing_to(score: float, named: list[Contribution]) -> list[Contribution]:
    """Return the contributions followed by the remainder, so that `total_of` is the score to the bit."""
    total = total_of(named)
    rest = score - total
    found = [*named, Contribution(REST, 1.0, rest, rest)]
    if (total := total + rest) != score:
        # Both are multiples of what the larger one is rounded to, so that the difference is exact.
        found.append(Contribution(ROUNDING, 1.0, score - total, score - total))
    return found


def _class_weights(
    learner: Learner, table: Table, places: NDArray[np.int64]
) -> tuple[dict[str, float], NDArray[np.float64]]:
    """Return predictor -> share, and the weights float64[predictors, n, classes] of each slot, less their class means.

    To first order the logarithm of a mixture of probabilities is the mean of its parts' logarithms, by their shares.
    """
    k, rows = learner.options.classes, table.class_weights[places]
    shares = {"apple": 1.0}
    if learner.options.mixed:
        shares = dict(zip(_CLASS_BLOCKS, learner.mixture_weights()[[LINEAR, AVERAGE, APPLE]].tolist(), strict=True))
    weights = np.stack([rows[:, _CLASS_BLOCKS[name] * k : (_CLASS_BLOCKS[name] + 1) * k] for name in shares])
    weights = weights.astype(np.float64)
    for number, name in enumerate(shares):
        if name == "linear":
            weights[number, table.slots["degree"][places] > 1] = 0.0
    return shares, weights - weights.mean(axis=2, keepdims=True)


def _weights(learner: Learner, table: Table, places: NDArray[np.int64]) -> tuple[dict[str, float], NDArray[np.float64]]:
    """Return predictor -> share, and the weight of each slot in each predictor, float64[predictors, n]."""
    weights = weights_at(table, places, learner.options.shrinkage or 0.0)
    if not learner.options.mixed:
        return {"apple": 1.0}, weights[APPLE : APPLE + 1]
    return dict(zip(learner.predictors, learner.mixture_weights().tolist(), strict=True)), weights
