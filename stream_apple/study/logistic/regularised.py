"""Logistic regression with an elastic net, of which each example touches only its own weights; and the dense loop.

After W. Cohen's lecture, "Efficient logistic regression with stochastic gradient descent". An example at rate r has two
steps: every weight shrinks, |w| <- max(0, (1 - 2 r l2) |w| - r l1), and those of its features learn, w += r (y - p) x.
Lazily, a weight shrinks when it is next looked at, by all the steps it has missed. Rates may differ from example to
example, so what was missed is not a number of steps but a ratio and a sum, see `_tick`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, routine
from stream_apple.study.logistic.sparse_rows import SparseRows

_LEAST_LEVEL = 1e-9  # below it, all weights are brought up to date, before the ratio of levels loses its digits

_LEVEL, _AMOUNT = 0, 1


class ElasticNet(NamedTuple):
    """What is taken from each example's log-likelihood: l2 * |w|^2 + l1 * (sum of |w_j|).

    predict_first  an example is scored before the shrinking that it brings, as Vowpal Wabbit does; else after it
    """

    l2: float = 0.0
    l1: float = 0.0
    predict_first: bool = False


class _Weights(NamedTuple):
    """The model. The last weight is the constant's, which is not regularised.

    weights  float64[size + 1]
    levels   float64[size]      the clock when each weight was last brought up to date
    amounts  float64[size]
    clock    float64[2]         level and amount now
    """

    weights: NDArray[np.float64]
    levels: NDArray[np.float64]
    amounts: NDArray[np.float64]
    clock: NDArray[np.float64]


class LazyLogistic:
    """The model that is learned lazily: an example costs its own features, however many others there are."""

    def __init__(self, size: int, net: ElasticNet) -> None:
        self._net = _exact(net)
        self._model = _Weights(np.zeros(size + 1), np.ones(size), np.zeros(size), np.array([1.0, 0.0]))

    def learn(self, rows: SparseRows, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Score and learn the examples in order, at rates float64[n]; the scores, log-odds, float64[n].

        ValueError for a rate so large that 1 - 2 * rate * l2 is not above 0: weights would change their signs.
        """
        _check(rows, rates, self._net, len(self._model.levels))
        scores = np.zeros(len(rows.labels))
        _learn_lazily(rows, rates, self._net, self._model, scores)
        return scores

    def predict(self, rows: SparseRows) -> NDArray[np.float64]:
        """Scores float64[n]; what is due is reckoned, and nothing is written."""
        scores = np.zeros(len(rows.labels))
        _predict_lazily(rows, self._model, scores)
        return scores

    def weights(self) -> NDArray[np.float64]:
        """A copy, float64[size + 1], with all that is due taken off; the constant is the last."""
        settled = self._model._replace(**{name: array.copy() for name, array in self._model._asdict().items()})
        _settle_all(settled)
        return settled.weights


class DenseLogistic:
    """The same, by the loop that touches every weight for every example: what the lazy one must equal."""

    def __init__(self, size: int, net: ElasticNet) -> None:
        self._net = _exact(net)
        self._weights = np.zeros(size + 1)

    def learn(self, rows: SparseRows, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """As of the lazy one."""
        _check(rows, rates, self._net, len(self._weights) - 1)
        scores = np.zeros(len(rows.labels))
        _learn_densely(rows, rates, self._net, self._weights, scores)
        return scores

    def weights(self) -> NDArray[np.float64]:
        """As of the lazy one."""
        return self._weights.copy()


def rates_of_passes(first: float, examples: int, passes: int) -> Sequence[NDArray[np.float64]]:
    """The lecture's rates: first / E^2 in pass E = 1, 2, ..., the same for all examples of a pass."""
    return [np.full(examples, first / (number * number)) for number in range(1, passes + 1)]


def _exact(net: ElasticNet) -> ElasticNet:
    """With floats: kernels are compiled for each type."""
    return ElasticNet(float(net.l2), float(net.l1), bool(net.predict_first))


def _check(rows: SparseRows, rates: NDArray[np.float64], net: ElasticNet, size: int) -> None:
    if rows.size != size:
        raise ValueError(f"expected rows of {size} columns, found {rows.size}")
    if len(rates) != len(rows.labels):
        raise ValueError(f"expected a rate for each of {len(rows.labels)} examples, found {len(rates)}")
    largest = float(rates.max(initial=0.0))
    if not 2.0 * largest * net.l2 < 1.0:
        raise ValueError(f"expected 2 * rate * l2 below 1, found rate {largest:g} and l2 {net.l2:g}")


@routine
def _tick(net: ElasticNet, rate: float, model: _Weights) -> None:
    """Another example has come: R *= rho, S += b / R, where rho = 1 - 2 rate l2, b = rate l1.

    All steps from clock (R', S') to (R, S) together: |w| <- max(0, R / R' |w| - R (S - S')).
    """
    clock = model.clock
    clock[_LEVEL] *= 1.0 - 2.0 * rate * net.l2
    clock[_AMOUNT] += rate * net.l1 / clock[_LEVEL]
    if clock[_LEVEL] < _LEAST_LEVEL:
        _settle_all(model)


@routine
def _settled(model: _Weights, column: int) -> float:
    """The weight, with all that is due taken off."""
    weight, level = model.weights[column], model.clock[_LEVEL]
    if weight == 0.0:
        return 0.0
    due = level * (model.clock[_AMOUNT] - model.amounts[column])
    return math.copysign(max(abs(weight) * (level / model.levels[column]) - due, 0.0), weight)


@kernel
def _settle_all(model: _Weights) -> None:
    """Bring all weights up to date; the clock begins anew."""
    for column in range(len(model.levels)):
        model.weights[column] = _settled(model, column)
        model.levels[column] = 1.0
        model.amounts[column] = 0.0
    model.clock[_LEVEL] = 1.0
    model.clock[_AMOUNT] = 0.0


@routine
def _score(rows: SparseRows, row: int, model: _Weights) -> float:
    score = float(model.weights[-1])
    for place in range(rows.indptr[row], rows.indptr[row + 1]):
        score += _settled(model, rows.columns[place]) * rows.values[place]
    return score


@kernel
def _predict_lazily(rows: SparseRows, model: _Weights, scores: NDArray[np.float64]) -> None:
    for row in range(len(scores)):
        scores[row] = _score(rows, row, model)


@kernel
def _learn_lazily(
    rows: SparseRows, rates: NDArray[np.float64], net: ElasticNet, model: _Weights, scores: NDArray[np.float64]
) -> None:
    for row in range(len(scores)):
        if not net.predict_first:
            _tick(net, rates[row], model)
        scores[row] = _score(rows, row, model)
        if net.predict_first:
            _tick(net, rates[row], model)
        step = rates[row] * (rows.labels[row] - 1.0 / (1.0 + math.exp(-scores[row])))
        for place in range(rows.indptr[row], rows.indptr[row + 1]):
            # A column that comes again is up to date by then: it shrinks once an example.
            column = rows.columns[place]
            model.weights[column] = _settled(model, column) + step * rows.values[place]
            model.levels[column] = model.clock[_LEVEL]
            model.amounts[column] = model.clock[_AMOUNT]
        model.weights[-1] += step


@routine
def _shrink_all(net: ElasticNet, rate: float, weights: NDArray[np.float64]) -> None:
    for column in range(len(weights) - 1):
        shrunk = (1.0 - 2.0 * rate * net.l2) * abs(weights[column]) - rate * net.l1
        weights[column] = math.copysign(max(shrunk, 0.0), weights[column])


@kernel
def _learn_densely(
    rows: SparseRows,
    rates: NDArray[np.float64],
    net: ElasticNet,
    weights: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:
    for row in range(len(scores)):
        if not net.predict_first:
            _shrink_all(net, rates[row], weights)
        score = weights[-1]
        for place in range(rows.indptr[row], rows.indptr[row + 1]):
            score += weights[rows.columns[place]] * rows.values[place]
        scores[row] = score
        if net.predict_first:
            _shrink_all(net, rates[row], weights)
        step = rates[row] * (rows.labels[row] - 1.0 / (1.0 + math.exp(-score)))
        for place in range(rows.indptr[row], rows.indptr[row + 1]):
            weights[rows.columns[place]] += step * rows.values[place]
        weights[-1] += step
