"""Why a row has its score: how much each feature, and each product of features, adds to it, by name."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.codec.feature_names import Names
from stream_apple.core.learner.factorization import Factors
from stream_apple.core.learner.kernels.mixture import APPLE, AVERAGE, FAST, FAST_LINEAR, LINEAR, SLOW_LINEAR
from stream_apple.core.learner.learner import Learner
from stream_apple.core.learner.state.table import Table
from stream_apple.monitoring.inspection import view_monomials
from stream_apple.monitoring.monomial_views import Monomial, MonomialFormatter

CONSTANT = "(constant)"
REST = "(rest)"
"""What no feature has: the score is within bounds, and what is published of a mixture is not quite its weighted sum."""


class Contribution(NamedTuple):
    """What one feature adds to a score.

    name    of the feature, or of the product; CONSTANT, or REST
    value   of the feature in the row
    weight  by which the score changes for each unit of the value
    amount  weight times value; of all contributions they sum to the score
    """

    name: str
    value: float
    weight: float
    amount: float


def explain_row(learner: Learner, names: Names, batch: Batch) -> list[Contribution]:
    """Return the contributions to the score of a batch's only row, the largest in size first, and REST last.

    ValueError for a model of classes, which has a score for each.
    """
    if learner.options.classes:
        raise ValueError("expected a model with one score, found one of classes, which has one for each")
    places, values, score = learner.active_features(batch, 0)
    table = learner.settled_table()
    constant = len(table.slots) - 1
    # Of labels that are amounts kernels know units alone, whose mean is the score where nothing has been learned.
    weights = learner.units.width * _weights(learner, table, places)
    weights[places == constant] += learner.units.centre
    shared = learner.options.collisions == "share"
    factors = None if shared else Factors(table, np.fromiter(names.known(), np.uint64))
    salience = np.abs(table.slots["weight"][:-1]) * table.slots["scale"][:-1]
    formatter = MonomialFormatter(table.slots, salience, factors, names, learner.preparation.derived_names())
    found = [
        Contribution(CONSTANT if place == constant else formatter.monomial(place).name, value, weight, value * weight)
        for place, value, weight in zip(places.tolist(), values.tolist(), weights.tolist(), strict=True)
    ]
    rest = score - math.fsum(each.amount for each in found)
    return [*sorted(found, key=lambda each: -abs(each.amount)), Contribution(REST, 1.0, rest, rest)]


def heaviest(learner: Learner, names: Names, top: int) -> list[Monomial]:
    """Return the `top` features and products that matter most, the heaviest first."""
    return list(view_monomials(learner, learner.settled_table(), names, top).top)


def _weights(learner: Learner, table: Table, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weight of each slot in what is published, float64[n]: of a mixture, to first order."""
    slots = table.slots[places]
    if not learner.options.mixed:
        return slots["weight"].astype(np.float64)
    base = slots["degree"] <= 1
    companions = table.companions[places]
    of_predictors = (
        (APPLE, slots["weight"]),
        (LINEAR, np.where(base, slots["linear_weight"], 0.0)),
        (AVERAGE, np.where(base, companions["average"], slots["average"])),
        (FAST, np.where(base, companions["fast"], slots["fast"])),
        (SLOW_LINEAR, np.where(base, companions["slow_linear"], 0.0)),
        (FAST_LINEAR, np.where(base, companions["fast_linear"], 0.0)),
    )
    shares = learner.mixture_weights()
    total = np.zeros(len(places))
    for number, weights in of_predictors:
        total += shares[number] * np.where(np.isfinite(weights), weights, 0.0).astype(np.float64)
    return total
