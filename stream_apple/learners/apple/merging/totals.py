"""Merging of a model's totals: the state of its mixture, and its sums over examples.

Sums over examples (N = `norm` and W = `weight` of ModelScalars, the stack's matrix) are averaged, not added, for the
reason given in `monomials.py`. Each model counts by its own W, so a model that has learned
nothing counts nothing.

- N and W become the sum of W * N over the sum of W, and likewise for W itself. Steps depend on their ratio.
- A model's stack is near the minimum of a parabola, the sum of its squared errors, whose curvature is its matrix. The
  merged stack is the minimum of the sum of all parabolas and of a ridge around the mean of the stacks.
- The shares become their geometric mean. A share is the exponential of minus a predictor's loss so far, so this is the
  share that belongs to the mean of the losses. The shares are tempered first, to the unit of the heaviest example of
  all models.
- The range of labels becomes the widest.

An array that is equal in all models stays as it is, to the bit.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.kernels.mixture import FIRST_SHARES, RIDGE
from stream_apple.learners.apple.state.weights import PREDICTORS
from stream_apple.learners.losses import Loss

Sums = dict[str, NDArray[Any]]
_Rows = Sequence[NDArray[np.float64]]

MERGED_SUMS = frozenset(
    {
        *("norm", "weight", "labels"),
        *("stack", "curvature", "shares", "heaviest"),
    }
)
"""The names in `Learner.sums` of the arrays that are merged; the others belong to the stream that a model learned."""


def merge_totals(models: Sequence[Mapping[str, NDArray[Any]]], loss: Loss) -> Sums:
    """Return the totals of the merged model, by name; `loss` is the one that it minimizes."""
    rows = {name: [model[name] for model in models] for name in models[0]}
    merged = {name: _merge_means(rows["weight"], rows[name]) for name in ("norm", "weight")}
    merged["labels"] = np.array(
        [min(float(row[0]) for row in rows["labels"]), max(float(row[1]) for row in rows["labels"])]
    )
    shares_of = _proportions([float(weights[0]) for weights in rows["weight"]])
    if "stack" in rows:
        merged["heaviest"] = np.array([max(float(row[0]) for row in rows["heaviest"])])
        merged["shares"] = _merge_shares(rows["shares"], rows["heaviest"], shares_of)
        spread = float(merged["labels"][1] - merged["labels"][0])
        unit = spread * spread if loss.real_valued else 1.0
        merged["stack"] = _merge_stack(rows["stack"], rows["curvature"], shares_of, unit)
        merged["curvature"] = _mean(rows["curvature"], shares_of)
    for name in merged:
        if all(np.array_equal(row, rows[name][0]) for row in rows[name]):
            merged[name] = rows[name][0].copy()
    return merged


def _proportions(weights: Sequence[float]) -> list[float]:
    """Return each weight's share of their sum; equal shares if the sum is 0."""
    most = max(weights)
    if not most > 0.0:
        return [1.0 / len(weights)] * len(weights)
    parts = [weight / most for weight in weights]  # so that nothing overflows
    total = sum(parts)
    return [each / total for each in parts]


def _mean(rows: _Rows, proportions: Sequence[float]) -> NDArray[np.float64]:
    total = np.zeros_like(rows[0])
    for row, proportion in zip(rows, proportions, strict=True):
        total += proportion * row
    return total


def _merge_means(weights: _Rows, sums: _Rows) -> NDArray[np.float64]:
    """Return the mean of each predictor's sums, weighted by its weights in each model."""
    of_each = [_proportions([float(weight[which]) for weight in weights]) for which in range(len(weights[0]))]
    return np.array(
        [
            sum(proportion * float(row[which]) for row, proportion in zip(sums, proportions, strict=True))
            for which, proportions in enumerate(of_each)
        ]
    )


def _merge_shares(rows: _Rows, heaviest: _Rows, proportions: Sequence[float]) -> NDArray[np.float64]:
    most = max(float(each[0]) for each in heaviest)
    logarithms = [0.0] * len(FIRST_SHARES)
    for row, own, proportion in zip(rows, heaviest, proportions, strict=True):
        ratio = float(own[0]) / most if most > 0.0 else 1.0
        for which, first in enumerate(FIRST_SHARES):  # as in `temper`, up to a factor that all shares have
            logarithms[which] += proportion * (math.log(first) + ratio * math.log(float(row[which]) / first))
    largest = max(logarithms)
    shares = [math.exp(logarithm - largest) for logarithm in logarithms]
    return np.array([share / sum(shares) for share in shares])


def _merge_stack(stacks: _Rows, curvatures: _Rows, proportions: Sequence[float], unit: float) -> NDArray[np.float64]:
    middle = _mean(stacks, proportions)
    total = [[0.0] * PREDICTORS for _ in range(PREDICTORS)]
    pull = [0.0] * PREDICTORS
    for stack, curvature in zip(stacks, curvatures, strict=True):
        apart = (stack - middle).tolist()
        matrix = curvature.reshape(PREDICTORS, PREDICTORS)
        for i in range(PREDICTORS):
            for j in range(PREDICTORS):
                entry = float(matrix[max(i, j), min(i, j)])  # the lower half is what is kept
                total[i][j] += entry
                pull[i] += entry * apart[j]
    for i in range(PREDICTORS):
        total[i][i] += RIDGE * unit
    stacked: NDArray[np.float64] = middle + np.array(_solve(total, pull, RIDGE * unit))
    return stacked


def _solve(matrix: list[list[float]], vector: list[float], least: float) -> list[float]:
    """Solve matrix * x = vector for a positive definite matrix, by a Cholesky decomposition L D L'."""
    size = len(vector)
    lower = [[0.0] * size for _ in range(size)]
    diagonal = [0.0] * size
    for j in range(size):
        left = matrix[j][j] - sum(lower[j][k] * lower[j][k] * diagonal[k] for k in range(j))
        diagonal[j] = max(left, least)
        if diagonal[j] <= 0.0:  # with the squared loss, before labels differ
            return [0.0] * size
        for i in range(j + 1, size):
            known = sum(lower[i][k] * lower[j][k] * diagonal[k] for k in range(j))
            lower[i][j] = (matrix[i][j] - known) / diagonal[j]
    found = list(vector)
    for i in range(size):
        found[i] -= sum(lower[i][k] * found[k] for k in range(i))
    for i in reversed(range(size)):
        found[i] = found[i] / diagonal[i] - sum(lower[k][i] * found[k] for k in range(i + 1, size))
    return found
