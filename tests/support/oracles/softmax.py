"""A linear softmax learner a second time, slow and plain: dense, in float64, one example after another."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def softmax(scores: Numbers) -> Numbers:
    """Probabilities; no score counts as more than 50 below the largest."""
    powers = np.exp(np.maximum(scores - scores.max(), -50.0))
    probabilities: Numbers = powers / powers.sum()
    return probabilities


def log_loss(weights: Numbers, x: Numbers, label: int) -> float:
    """-log of the label's probability; weights [features, classes]."""
    return -float(np.log(softmax(x @ weights)[label]))


def margin_after(margin: float, way: float) -> float:
    """The solution m of m + e^m = margin + e^margin + way, by Newton's method."""
    found = margin
    for _ in range(200):
        found -= (found + np.exp(found) - margin - np.exp(margin) - way) / (1.0 + np.exp(found))
    return float(found)


class DenseSoftmax:
    """Weights, accumulators [features, classes] and scales [features]; a column of ones is the constant."""

    def __init__(self, features: int, classes: int, rate: float) -> None:
        self.weights = np.zeros((features, classes))
        self.gradients = np.zeros((features, classes))
        self.scales = np.zeros(features)
        self.norm = self.weight = 0.0
        self._rate = rate * np.sqrt(classes / 8)

    def loss(self, x: Numbers, label: int) -> float:
        """Before learning."""
        return log_loss(self.weights, x, label)

    def learn(self, x: Numbers, label: int, importance: float) -> None:
        """One step."""
        scores = x @ self.weights
        scores = np.maximum(scores - scores.max(), -50.0)
        others = np.exp(scores)
        others[label] = 0.0
        margin = float(scores[label] - np.log(others.sum()))
        direction = -others / others.sum()
        direction[label] = 1.0
        at = np.flatnonzero(x)
        for i in at:
            if abs(x[i]) > self.scales[i]:
                if self.scales[i]:
                    self.weights[i] *= self.scales[i] / abs(x[i])
                self.scales[i] = abs(x[i])
        slope = direction / (1.0 + np.exp(margin))
        ratio = x[at] / self.scales[at]
        self.gradients[at] += importance * np.outer(x[at] ** 2, slope**2)
        steps = ratio[:, None] / np.sqrt(self.gradients[at])
        self.norm += importance * float((ratio**2).sum())
        self.weight += importance
        steps *= np.sqrt(self.weight / self.norm)
        sensitivity = float((x[at][:, None] * steps * direction**2).sum())
        way = margin_after(margin, self._rate * importance * sensitivity) - margin
        self.weights[at] += steps * direction * way / sensitivity
