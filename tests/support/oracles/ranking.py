"""AUC and calibration error by their definitions: pair by pair, and bin by bin."""

from collections.abc import Sequence
from typing import NamedTuple

_LOW = (0.0, 2.0**-13, 2.0**-10, 2.0**-8, 2.0**-6, 2.0**-4, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2)


class Predicted(NamedTuple):
    """An example: is it positive, its importance weight, and where its score lies between 0 and 1."""

    positive: bool
    weight: float
    place: float


def auc(examples: Sequence[Predicted]) -> float:
    """The share of pairs whose positive has the higher place, by weight."""
    won = pairs = 0.0
    for one in examples:
        for other in examples:
            if one.positive and not other.positive:
                weight = one.weight * other.weight
                pairs += weight
                won += weight * ((one.place > other.place) + (one.place == other.place) / 2)
    return won / pairs


def calibration_error(examples: Sequence[Predicted]) -> float:
    """Mean of |mean place - share of positives| over the bins, by weight."""
    bins: dict[tuple[bool, int], list[Predicted]] = {}
    for example in examples:
        tail = example.place if example.place < 0.5 else 1.0 - example.place
        which = min(sum(edge <= tail for edge in _LOW), len(_LOW) - 1)  # 1/2 is with what lies above it
        bins.setdefault((example.place < 0.5, which), []).append(example)
    error = 0.0
    for members in bins.values():
        weight = sum(e.weight for e in members)
        share = sum(e.weight for e in members if e.positive) / weight
        mean = sum(e.weight * e.place for e in members) / weight
        error += weight * abs(mean - share)
    return error / sum(e.weight for e in examples)
