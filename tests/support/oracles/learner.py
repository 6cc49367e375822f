"""Apple, slow and obvious: monomials are tuples of names, the model is a dict, no slot is ever shared or lost.

Written from the paper and from the description of the update, not from the kernels. Numbers that the model keeps
between examples are float32, as in the kernels; everything else is float64.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

Monomial = tuple[str, ...]  # sorted names, with repetition
CONSTANT: Monomial = ()


@dataclass
class Weights:
    """One linear predictor over monomials."""

    weight: dict[Monomial, np.float32] = field(default_factory=dict)
    gradient: dict[Monomial, np.float32] = field(default_factory=dict)
    norm: float = 0.0
    total: float = 0.0


class Oracle:
    """Predict, learn, end_epoch; `method` and `loss` as in `Options`.

    scale        the largest value of each monomial so far
    label_range  the lowest and the highest label so far, and 0; scores of the squared loss are clipped to it
    nonzeros     features that the learned examples came with; `features` counts their monomials
    """

    def __init__(self, method: str = "apple", loss: str = "squared", rate: float = 0.5, alpha: float = 1.0) -> None:
        self.method, self.loss, self.rate, self.alpha = method, loss, rate, alpha
        self.apple, self.linear = Weights(), Weights()
        self.scale: dict[Monomial, np.float32] = {}
        self.parents: set[Monomial] = set()
        self.label_range = (0.0, 0.0)
        self.examples = self.nonzeros = self.features = 0

    def expand(self, base: Mapping[str, float]) -> tuple[dict[Monomial, np.float32], dict[Monomial, Monomial]]:
        """The example's monomials with their values, each with the first parent that reached it."""
        values = {CONSTANT: np.float32(1.0)}
        reached_from: dict[Monomial, Monomial] = {}
        queue = [CONSTANT]
        deepest = {"linear": 1, "quadratic": 2, "cubic": 3, "apple": 250}[self.method]
        while queue:
            parent = queue.pop(0)
            for name, value in base.items():
                child = tuple(sorted((*parent, name)))
                if child in values:
                    continue
                values[child] = np.float32(values[parent] * np.float32(value))
                reached_from[child] = parent
                is_parent = child in self.parents if self.method == "apple" else True
                if is_parent and len(child) < deepest:
                    queue.append(child)
        return values, reached_from

    def score(self, weights: Weights, values: Mapping[Monomial, np.float32]) -> float:
        """The clipped sum of weight * value."""
        raw = sum(float(weights.weight.get(m, np.float32(0))) * float(x) for m, x in values.items())
        low, high = (-50.0, 50.0) if self.loss == "logistic" else self.label_range
        return min(max(raw, low), high)

    def loss_of(self, score: float, label: float) -> float:
        """The loss of one score."""
        return math.log1p(math.exp(-score * label)) if self.loss == "logistic" else (score - label) ** 2

    def learn(self, base: Mapping[str, float], label: float | None, importance: float = 1.0) -> tuple[float, float]:
        """Score, then learn; returns apple's and the linear predictor's score."""
        values, reached_from = self.expand(base)
        learning = label is not None and importance > 0
        if learning:
            assert label is not None
            self.label_range = min(label, *self.label_range), max(label, *self.label_range)
        base_values = {m: x for m, x in values.items() if len(m) <= 1}
        score, linear_score = self.score(self.apple, values), self.score(self.linear, base_values)
        if learning:
            assert label is not None
            for monomial, parent in reached_from.items():
                if monomial not in self.apple.gradient:
                    start = np.float32(0.0)
                    if self.method == "apple" and len(monomial) > 1:
                        factor = values[monomial] / values[parent]
                        start = np.float32(np.float32(0.1) * self.apple.gradient[parent] * factor * factor)
                    self.apple.gradient[monomial] = start
            self.examples += 1
            self.nonzeros += len(base)
            self.features += len(values)
            self.update(self.apple, values, score, label, importance)
            self.update(self.linear, base_values, linear_score, label, importance)
        return score, linear_score

    def update(
        self, weights: Weights, values: Mapping[Monomial, np.float32], score: float, label: float, importance: float
    ) -> None:
        """Adaptive, normalised, importance-invariant."""
        if self.loss == "logistic":
            slope = (1.0 / (1.0 + math.exp(score * label))) ** 2 if score * label < 24 * math.log(2) else 0.0
        else:
            slope = 4.0 * (score - label) ** 2
        if slope == 0:
            return
        sensitivity = 0.0
        steps = {}
        for m, x in values.items():
            scale = self.scale.get(m, np.float32(0))
            if weights is self.linear:
                scale = max(scale, abs(x))  # scales are apple's
            elif abs(x) > scale:
                for either in (self.apple, self.linear):
                    if scale > 0 and m in either.weight:
                        either.weight[m] = np.float32(either.weight[m] * (scale / abs(x)))
                self.scale[m] = scale = abs(x)
            total = weights.gradient.get(m, np.float32(0)) + np.float32(importance * slope) * x * x
            weights.gradient[m] = np.float32(total)
            steps[m] = float(x) / (math.sqrt(total) * float(scale))
            weights.norm += importance * (float(x) / float(scale)) ** 2
            sensitivity += float(x) * steps[m]
        weights.total += importance
        normaliser = math.sqrt(weights.total / weights.norm)
        by = self.invariant(score, label, self.rate * importance, sensitivity * normaliser)
        change = by * normaliser
        for m, step in steps.items():
            weights.weight[m] = np.float32(weights.weight.get(m, np.float32(0)) + np.float32(change * step))

    def invariant(self, score: float, label: float, rate: float, sensitivity: float) -> float:
        """The limit of many small gradient steps, for the logistic loss by bisection."""
        if self.loss == "squared":
            return (label - score) * (1 - math.exp(-2 * rate * sensitivity)) / sensitivity
        margin, low = score * label, score * label
        high = min(margin + rate * sensitivity, 100.0)
        for _ in range(200):
            middle = (low + high) / 2
            if (middle - margin) + math.exp(middle) - math.exp(margin) < rate * sensitivity:
                low = middle
            else:
                high = middle
        return label * ((low + high) / 2 - margin) / sensitivity

    def end_epoch(self) -> None:
        """The heaviest floor(s^alpha) become parents."""
        count = int((self.nonzeros / self.examples) ** self.alpha)
        heavy = {
            m: abs(w) * self.scale[m]
            for m, w in self.apple.weight.items()
            if m and m not in self.parents and abs(w) * self.scale[m] > 1e-9
        }
        self.parents |= set(sorted(heavy, key=lambda m: -heavy[m])[:count])
