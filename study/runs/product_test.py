"""The test of products on examples: whether a product would lower the loss of the features learned so far.

For a product of the features p and x, whose means are p' and x', and the residual r, the sum of r (p - p') (x - x') is
near 0 if the product is of no use. Both features are centred, because what p and x say by themselves is learned
already: the product of numbers far from 0 says little else, and the residual's noise would hide the rest. All sums are
computed from the examples that have both features.
"""

from collections.abc import Iterable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from study.runs.monomials import CandidateEntries, Entries

LEVEL = 0.05
"""The largest probability with which a test admits any product at all if none is of use."""

TINY = float(np.finfo(np.float64).tiny)


class Residuals(NamedTuple):
    """The residuals of the examples of a stretch, by their rows.

    slopes   float64[n], w r: the importance times the residual, less the mean residual
    weights  float64[n], w
    """

    slopes: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def around_mean(cls, residuals: NDArray[np.float64], weights: NDArray[np.float64]) -> "Residuals":
        """Return the residuals less their mean: a constant is learned already."""
        total = float(weights.sum())
        mean = float((weights * residuals).sum()) / total if total > 0 else 0.0
        return cls(weights * (residuals - mean), weights)


class Judged(NamedTuple):
    """The candidates of a stretch, by keys in ascending order; all arrays have one element for each.

    parents, factors  as in `CandidateEntries`
    slopes     float64: the sum of w r (p - p') (x - x')
    variances  float64: the sum of the squares of these
    squares    float64: the sum of w (p - p')^2 (x - x')^2
    """

    keys: NDArray[np.uint64]
    parents: NDArray[np.int64]
    factors: NDArray[np.uint64]
    slopes: NDArray[np.float64]
    variances: NDArray[np.float64]
    squares: NDArray[np.float64]

    def passed(self) -> NDArray[np.int64]:
        """Return the places of the candidates that would lower the loss beyond chance, the most useful first.

        If a candidate is of no use, its slope over the root of its variance is nearly normal, whatever the residuals'
        variances are (a score test with White's estimate): it passes with a probability of LEVEL over the number of
        candidates (Bonferroni). Usefulness is the squared loss that a weight would save, slope^2 / squares.
        """
        if not len(self.keys):
            return np.empty(0, np.int64)
        least = NormalDist().inv_cdf(1.0 - LEVEL / (2 * len(self.keys)))
        certain = (np.abs(self.slopes) > least * np.sqrt(self.variances)) & (self.squares > 0.0)
        significant = np.flatnonzero(certain)
        use = self.slopes[significant] ** 2 / self.squares[significant]
        return significant[np.lexsort((self.keys[significant], -use))]


def judge(
    portions: Iterable[CandidateEntries], parents: NDArray[np.uint64], features: Entries, residuals: Residuals
) -> Judged:
    """Sum up the evidence for each candidate over the examples.

    parents   uint64[k], the keys of the parents; candidates name a parent by its index here
    features  of the same examples; they include parents and factors
    """
    keys, origins, factors = np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.uint64)
    sums = np.empty((9, 0))
    for portion in portions:
        products = np.array(
            [portion.heads**a * portion.values**b for a, b in ((1, 1), (2, 1), (1, 2), (2, 2))]
        )  # p x, p^2 x, p x^2, p^2 x^2
        new = _weighted(products, portion.rows, residuals)
        keys, first, places = np.unique(np.concatenate([keys, portion.keys]), return_index=True, return_inverse=True)
        origins = np.concatenate([origins, portion.parents])[first]
        factors = np.concatenate([factors, portion.factors])[first]
        both = np.concatenate([sums, new], axis=1)
        sums = np.array([np.bincount(places, row, len(keys)) for row in both])
    if not len(keys):
        return Judged(keys, origins, factors, *np.empty((3, 0)))
    names, places = np.unique(features.keys, return_inverse=True)
    powers = _weighted(np.array([features.values, features.values**2]), features.rows, residuals)
    single = np.array([np.bincount(places, row, len(names)) for row in powers])
    p, x = (single[:, np.searchsorted(names, wanted)] for wanted in (parents[origins], factors))
    slopes, weights = residuals
    total = float(weights.sum())
    p_mean, x_mean = p[3] / max(total, TINY), x[3] / max(total, TINY)
    return Judged(
        keys,
        origins,
        factors,
        sums[0] - p_mean * x[0] - x_mean * p[0] + p_mean * x_mean * slopes.sum(),
        _spread(sums[1:5], (p[1:3], p_mean), (x[1:3], x_mean), float((slopes**2).sum())),
        _spread(sums[5:9], (p[3:5], p_mean), (x[3:5], x_mean), total),
    )


def _weighted(powers: NDArray[np.float64], rows: NDArray[np.int64], residuals: Residuals) -> NDArray[np.float64]:
    """Return the first power times w r, then all of them times (w r)^2, then all of them times w."""
    slopes, weights = residuals.slopes[rows], residuals.weights[rows]
    return np.concatenate([slopes * powers[:1], slopes**2 * powers, weights * powers])


def _spread(
    pair: NDArray[np.float64],
    of_p: tuple[NDArray[np.float64], NDArray[np.float64]],
    of_x: tuple[NDArray[np.float64], NDArray[np.float64]],
    total: float,
) -> NDArray[np.float64]:
    """Return the sum of f (p - p')^2 (x - x')^2 over all examples, float64[k], from sums over those with a feature.

    pair        the sums of f p x, f p^2 x, f p x^2 and f p^2 x^2
    of_p, of_x  the sums of f p and f p^2, and the mean p'; the same of x
    total       the sum of f
    """
    (p, p2), mean_p = of_p
    (x, x2), mean_x = of_x
    px, p2x, px2, p2x2 = pair
    spread: NDArray[np.float64] = (
        (p2x2 - 2 * mean_x * p2x + mean_x**2 * p2)
        - 2 * mean_p * (px2 - 2 * mean_x * px + mean_x**2 * p)
        + mean_p**2 * (x2 - 2 * mean_x * x + mean_x**2 * total)
    )
    return spread.clip(min=0.0)
