"""What is published of six predictors, by plain numpy in float64: written from the description, not from the kernels.

Shares: exponential weights on linear, average and stack, with a fixed share. The published score: for the logistic
loss the log-odds of the mean probability; for the squared loss the substitution of Vovk's aggregating algorithm. The
stack: Newton steps with a forgetting matrix and a constant ridge; with the squared loss, by that of the clipped score.
"""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
FIRST = np.array([0.9, 0.05, 0.05])
OFFERED = [0, 2]  # linear and average, before the stack


class MixtureOracle:
    """Score, then learn; `shares`, `stack` and `matrix` as they are after each example."""

    def __init__(self, *, logistic: bool) -> None:
        self.logistic, self.forgiving = logistic, not logistic
        self.shares, self.stack, self.matrix = FIRST.copy(), np.eye(6)[0], np.zeros((6, 6))
        self.heaviest = 0.0

    def losses(self, scores: Vector, label: float) -> Vector:
        """Of each score."""
        return np.logaddexp(0.0, -scores * label) if self.logistic else (scores - label) ** 2

    def score(self, raw: Vector, low: float, high: float) -> float:
        """What is published."""
        self.clipped, self.ends = np.clip(raw, low, high), (low, high)
        self.stacked = float(self.stack @ self.clipped)
        self.offers = np.append(self.clipped[OFFERED], np.clip(self.stacked, low, high))
        if self.logistic:
            positive = self.shares @ (1 / (1 + np.exp(-self.offers)))
            negative = self.shares @ (1 / (1 + np.exp(self.offers)))
            return float(np.clip(np.log(positive / negative), low, high))
        if high == low:
            return low
        ends = [-np.log(self.shares @ np.exp(-2 * ((self.offers - end) / (high - low)) ** 2)) for end in (low, high)]
        return float(np.clip((low + high) / 2 + (high - low) / 4 * (ends[0] - ends[1]), low, high))

    def learn(self, label: float, importance: float, spread: float) -> None:
        """From the example that was scored last."""
        if not self.logistic and spread == 0:
            return
        unit = 1.0 if self.logistic else spread**2
        lost = self.losses(self.offers, label)
        if importance > self.heaviest:
            tempered = FIRST * (self.shares / FIRST) ** (self.heaviest / importance)
            self.shares, self.heaviest = tempered / tempered.sum(), importance
        rate = (1.0 if self.logistic else 2.0 / unit) / self.heaviest
        grown = self.shares * np.exp(-rate * importance * (lost - lost.min()))
        self.shares = (1 - 1e-5) * grown / grown.sum() + 1e-5 * FIRST
        slope, curvature = label - self.stacked, 1.0
        if self.logistic:
            miss = 1 / (1 + np.exp(np.clip(self.stacked, -50, 50) * label))
            slope, curvature = label * miss, max(miss**2, miss * (1 - miss))
        elif self.forgiving and label in self.ends and np.clip(self.stacked, *self.ends) == label:
            slope, curvature = 0.0, 0.0
        self.matrix = self.matrix * 0.9998 + importance * curvature * np.outer(self.clipped, self.clipped)
        step = np.linalg.solve(self.matrix + 0.5 * unit * np.eye(6), self.clipped * importance * slope)
        self.stack = self.stack + step
