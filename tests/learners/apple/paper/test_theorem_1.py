"""Plain descent with L2: step for step as written, and the bound of the paper's Theorem 1 on a support that grows."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from learners.apple.paper.supports import Monomial, column_of, monomials_of, parents_of
from learners.apple.test_learner import Row, batch_of, monomial_key, planted_rows
from numpy.typing import NDArray

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores

L2 = 0.5


def test_weights_are_those_of_the_recursion() -> None:
    """As written: w -= (slope * x + l2 * w) / (l2 * (t + 1)), for all weights at each step; parents by their size."""
    rows = planted_rows(400, seed=6, names=8, binary=True)
    learner = Learner(Options(mixture=False, loss="logistic", bits=14, steps="theorem1", theorem1_lambda=L2, alpha=0.7))
    weights: dict[Monomial, float] = {}
    linear: dict[Monomial, float] = {}
    parents: set[Monomial] = set()
    t = 0
    for number, row in enumerate(rows, 1):
        scores = Scores.empty(1)
        learner.learn(batch_of([row]), 0, 1, scores)
        values = monomials_of(row.features, parents)
        score = sum(weights.get(m, 0.0) * x for m, x in values.items())
        linear_score = sum(linear.get(m, 0.0) * x for m, x in values.items() if len(m) <= 1)
        assert scores.predictions[0] == pytest.approx(score, rel=1e-4, abs=1e-4)
        assert scores.linear[0] == pytest.approx(linear_score, rel=1e-4, abs=1e-4)
        if row.label is not None and row.weight:
            t += 1
            for kept, own, degree in ((weights, score, 99), (linear, linear_score, 1)):
                slope = -row.weight * row.label / (1 + np.exp(own * row.label))
                for monomial in {*kept, *(m for m in values if len(m) <= degree)}:
                    gradient = slope * values.get(monomial, 0.0) + L2 * kept.get(monomial, 0.0)
                    kept[monomial] = kept.get(monomial, 0.0) - gradient / (L2 * (t + 1))
        if number % 100 == 0:
            learned = column_of(learner, "weight")
            for monomial, weight in weights.items():
                assert learned[monomial_key(monomial)] / (t + 1) == pytest.approx(weight, rel=1e-3, abs=1e-5)
            learner.end_epoch()
            parents = parents_of(learner, set(weights))
    assert max(map(len, parents)) >= 2
    # What it predicts is of the weights after the last step, and of no other count of examples.
    row = rows[1]
    expected = sum(weights.get(m, 0.0) * x for m, x in monomials_of(row.features, parents).items())
    assert learner.predict(batch_of([row]))[0] == pytest.approx(expected, rel=1e-4, abs=1e-4)


# Two labels for each of eight sets of three features; label 1 has the probability below: a decides, unless b and c.
NAMES = "abc"
PATTERNS = [dict.fromkeys(each, 1.0) for n in range(4) for each in itertools.combinations(NAMES, n)]
POSITIVE = np.array([0.95 if ("a" in each) ^ ({"b", "c"} <= set(each)) else 0.05 for each in PATTERNS])


class Support(NamedTuple):
    """Monomials in an order, and their values float64[patterns, monomials]."""

    monomials: Sequence[Monomial]
    values: NDArray[np.float64]


def support_of(parents: set[Monomial]) -> Support:
    """All features that any example can have."""
    found = [monomials_of(each, parents) for each in PATTERNS]
    monomials = sorted(set().union(*found), key=lambda each: (len(each), each))
    return Support(monomials, np.array([[each.get(m, 0.0) for m in monomials] for each in found]))


def objective(margins: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """F(w) = E log(1 + exp(-y <w, x>)) + l2 |w|^2 / 2, exactly."""
    loss = POSITIVE * np.logaddexp(0, -margins) + (1 - POSITIVE) * np.logaddexp(0, margins)
    return float(loss.mean() + L2 / 2 * (weights @ weights))


def best_weights(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the objective, by Newton's method: the strictest comparator on a support."""
    weights = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (p - POSITIVE) / len(x) + L2 * weights
        curvature = (x.T * (p * (1 - p))) @ x / len(x) + L2 * np.eye(len(weights))
        weights = weights - np.linalg.solve(curvature, slope)
    assert np.abs(slope).max() < 1e-12
    return weights


STEPS, EPOCHS = 24_000, 3


def one_run(seed: int) -> tuple[float, float, float, int]:
    """Both sides of the theorem's inequality, the left side of a model that stays at 0, and how the support grew."""
    rng = np.random.default_rng(seed)
    which = rng.integers(len(PATTERNS), size=STEPS)
    labels = np.where(rng.random(STEPS) < POSITIVE[which], 1.0, -1.0)
    batch = batch_of([Row(PATTERNS[i], float(y), 1.0) for i, y in zip(which, labels, strict=True)])
    learner, scores = (
        Learner(Options(mixture=False, loss="logistic", bits=10, steps="theorem1", theorem1_lambda=L2)),
        Scores.empty(STEPS),
    )
    parents: set[Monomial] = set()
    compared, largest, sizes = 0.0, 0.0, []
    squares = 0.0  # the largest of |x|^2
    for start in range(0, STEPS, STEPS // EPOCHS):
        support = support_of(parents)
        comparator = best_weights(support.values)
        value = objective(support.values @ comparator, comparator)
        sizes.append(len(support.monomials))
        largest = max(largest, float(np.linalg.norm(comparator)))
        squares = max(squares, float((support.values**2).sum(axis=1).max()))
        end = start + STEPS // EPOCHS
        compared += value * sum(t + 2 for t in range(start + 1, end + 1))
        for first in range(start, end, 20):
            learner.learn(batch, first, first + 20, scores)
            norm = np.linalg.norm(learner.slots()["weight"].astype(float)) / (first + 21)
            largest = max(largest, float(norm))
        if end < STEPS:
            learner.end_epoch()
            parents = parents_of(learner, set(support.monomials))
    compared /= sum(t + 2 for t in range(1, STEPS + 1))
    learned = np.array(list(column_of(learner, "weight").values())) / (STEPS + 1)
    reached = objective(learner.predict(batch_of([Row(each, None, 1.0) for each in PATTERNS])), learned)
    bound = (squares + L2) * (np.sqrt(squares) + L2 * largest) ** 2 / (2 * L2**2 * (STEPS + 1))
    nothing = objective(np.zeros(len(PATTERNS)), np.zeros(1))
    return reached - compared, float(bound), nothing - compared, len(set(sizes))


def test_the_bound_of_the_theorem() -> None:
    """E[f(w) - sum (t+2) f(u_t) / sum (t+2)] <= (X^2 + l2) (X + l2 D)^2 / (2 l2^2 (T+1)), u_t the best on the support.

    D and X are the largest norms of what was met.
    """
    runs = np.array([one_run(seed) for seed in range(6)])
    excess, bound, nothing, sizes = runs.mean(axis=0)
    assert excess <= bound
    assert nothing > 1.5 * bound, "the bound must be one that a model can fail to keep"
    assert sizes > 2, "the support must grow"
