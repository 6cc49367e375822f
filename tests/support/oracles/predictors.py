"""One step of the five predictors in float64 over dicts, written from the description of the update.

Linear, apple, average, fast and slow linear, in this order. The expanded ones share apple's accumulators,
the linear ones those of the linear predictor.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from support.oracles.learner import Monomial, Oracle

LINEAR, APPLE, AVERAGE, FAST, SLOW_LINEAR = range(5)
RATES = {LINEAR: 1.0, APPLE: 1.0, FAST: 6.0, SLOW_LINEAR: 0.125}


@dataclass
class State:
    """Of one monomial; `gradient` of apple and of the linear predictor."""

    weights: list[float] = field(default_factory=lambda: [0.0] * 5)
    gradient: list[float] = field(default_factory=lambda: [0.0, 0.0])
    scale: float = 0.0
    sights: int = 0


def within_reach(base: Mapping[str, float], states: Mapping[Monomial, State]) -> dict[str, float]:
    """Base features as they count: at most 1.25 times the largest value so far, of those seen 20 times or more."""
    found = {}
    for name, value in base.items():
        found[name] = float(np.float32(value))
        state = states.get((name,))
        if state is not None and state.sights >= 20:
            reach = float(np.float32(1.25) * np.float32(state.scale))
            found[name] = min(max(found[name], -reach), reach)
    return found


@dataclass
class Step:
    """What all monomials share: sums of importance * (x / scale)^2 and of importance, of apple and linear."""

    loss: str
    rate: float
    norm: list[float]
    weight: list[float]

    def scores(self, states: Mapping[Monomial, State], values: Mapping[Monomial, float]) -> list[float]:
        """Of the five, not clipped."""
        found = [0.0] * 5
        for monomial, x in values.items():
            for which in range(5):
                if len(monomial) <= 1 or which in {APPLE, AVERAGE, FAST}:
                    found[which] += states[monomial].weights[which] * x
        return found

    def learn(
        self, states: Mapping[Monomial, State], values: Mapping[Monomial, float], scores: list[float], label: float,
        importance: float,
    ) -> None:  # fmt: skip
        """Change the states; `scores` are clipped."""
        for monomial, x in values.items():
            state = states[monomial]
            if abs(x) > state.scale:
                ratio = state.scale / abs(x) if state.scale else 1.0
                state.weights = [weight * ratio for weight in state.weights]
                state.scale = abs(x)
        base = {monomial: x for monomial, x in values.items() if len(monomial) <= 1}
        self._learn(states, values, (APPLE, FAST), scores, label, importance)
        self._learn(states, base, (LINEAR, SLOW_LINEAR), scores, label, importance)
        for monomial in values:
            state = states[monomial]
            state.sights = min(state.sights + 1, 255)
            apart = state.weights[APPLE] - state.weights[AVERAGE]
            state.weights[AVERAGE] += apart / min(state.sights, 100)

    def _learn(
        self, states: Mapping[Monomial, State], values: Mapping[Monomial, float], whose: tuple[int, ...],
        scores: list[float], label: float, importance: float,
    ) -> None:  # fmt: skip
        which = 0 if APPLE in whose else 1
        slope = self._slope(scores[whose[0]], label)
        steps, norm = {}, 0.0
        for monomial, x in values.items():
            state = states[monomial]
            state.gradient[which] += importance * slope * x * x
            total, ratio = state.gradient[which], x / state.scale
            steps[monomial] = ratio / math.sqrt(total) if total > 0 else 0.0
            norm += ratio * ratio
        if slope > 0:
            self.norm[which] += importance * norm
            self.weight[which] += importance
        if self.norm[which] <= 0:
            return
        normaliser = math.sqrt(self.weight[which] / self.norm[which])
        sensitivity = sum(values[monomial] * step for monomial, step in steps.items())
        for predictor in whose:
            if sensitivity <= 0 or self._slope(scores[predictor], label) == 0:
                continue
            oracle = Oracle(loss=self.loss)
            asked = scores[predictor], label, RATES[predictor] * self.rate * importance, sensitivity * normaliser
            by = oracle.invariant(*asked)
            for monomial, step in steps.items():
                states[monomial].weights[predictor] += by * normaliser * step

    def _slope(self, score: float, label: float) -> float:
        if self.loss == "squared":
            return 4 * (score - label) ** 2
        return 0.0 if score * label > 24 * math.log(2) else float(1 / (1 + np.exp(score * label))) ** 2
