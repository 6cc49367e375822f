"""Why a row has its score: how much each feature, and each product of features, adds to it, by name.

A score is given as a sum. Its terms are in a fixed order, the largest in size first; added one after another in
float64, from 0.0 on, they give the score to the last bit.

The learner gives the features' weights, see `ScoreParts` in `learners/port.py`. What they leave unexplained is one
term, REST.
"""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import NamedTuple, Self

from stream_apple.core.batch import Batch
from stream_apple.learners.port import Learner, ScoreParts
from stream_apple.monitoring.inspection import view_monomials
from stream_apple.monitoring.monomials import Monomial, MonomialFormatter
from stream_apple.records.message.feature_names import Names

CONSTANT = "(constant)"
REST = "(rest)"
"""The remainder that no feature explains: scores are bounded, and a mixture is not quite the weighted sum of scores."""
ROUNDING = "(rounding)"
"""The remainder after REST, which is itself rounded; it is there only if the sum would not be exact without it."""


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


def explain_scores(learner: Learner, names: Names, batch: Batch) -> list[Explanation]:
    """Return the score of a batch's only row as a sum; with classes, the score of each class, in their order."""
    formatter = MonomialFormatter(names)
    return [_explained(formatter, parts) for parts in learner.explain(batch)]


def explain_row(learner: Learner, names: Names, batch: Batch, label: float | None = None) -> list[Contribution]:
    """Return the contributions to the score of a batch's only row, the largest in size first, and REST last.

    label  the class whose score it is; None: the most probable one. ValueError if the model has no such class, or only
           one score.
    """
    classes = learner.options.classes
    if label is not None and label not in range(classes):
        expected = f"a class from 0 to {classes - 1}" if classes else "None for a model with one score"
        raise ValueError(f"label: expected {expected}, found {label!r}")
    found = explain_scores(learner, names, batch)
    return (of_highest_score(found) if label is None else found[int(label)]).contributions


def of_highest_score(explanations: Sequence[Explanation]) -> Explanation:
    """Return the explanation of the highest score, the first one among equals."""
    return max(explanations, key=lambda each: each.score)


def heaviest(learner: Learner, names: Names, top: int) -> list[Monomial]:
    """Return the `top` features and products that matter most, the heaviest first; ValueError for no number of them."""
    if not isinstance(top, Integral) or top < 0:
        raise ValueError(f"top: expected a whole number from 0 on, found {top!r}")
    return list(view_monomials(learner, names, top).top)


def _explained(formatter: MonomialFormatter, parts: ScoreParts) -> Explanation:
    found = [
        Contribution(
            name=formatter.name(term) or CONSTANT,
            value=term.value,
            weight=term.weight,
            amount=term.value * term.weight,
            predictors=tuple(weight * term.value for weight in term.weights),
        )
        for term in parts.terms
    ]
    found.sort(key=lambda each: -abs(each.amount))
    predictors = [
        Predictor(name, share, math.fsum(each.predictors[number] for each in found))
        for number, (name, share) in enumerate(parts.shares.items())
    ]
    return Explanation(parts.score, _summing_to(parts.score, found), predictors, parts.label)


def _summing_to(score: float, named: list[Contribution]) -> list[Contribution]:
    """Return the contributions followed by the remainder, so that `total_of` is the score to the bit."""
    total = total_of(named)
    rest = score - total
    found = [*named, Contribution(REST, 1.0, rest, rest)]
    if (total := total + rest) != score:
        # Both are multiples of what the larger one is rounded to, so that the difference is exact.
        found.append(Contribution(ROUNDING, 1.0, score - total, score - total))
    return found
