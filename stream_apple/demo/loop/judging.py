"""How good answers were: their mean logarithmic loss, beside that of the best constant answer to the same questions."""

import math
from typing import NamedTuple

import numpy as np

from stream_apple.demo.loop.site import Shown


class Judgement(NamedTuple):
    """Holds mean losses of some answers; NaN if there are none.

    answers   as they were given
    constant  of the share of clicks among the very same: no constant, even one chosen afterwards, does better
    """

    answers: float
    constant: float


NO_JUDGEMENT = Judgement(math.nan, math.nan)


class Judge:
    """Takes in impressions whose outcome is known, in their order; what had no answer has no loss."""

    def __init__(self) -> None:
        self._log_odds: list[float] = []
        self._clicked: list[bool] = []

    @property
    def judged(self) -> int:
        """Return how many impressions were taken in."""
        return len(self._log_odds)

    def take(self, shown: Shown) -> None:
        """Take in the next impression."""
        self._log_odds.append(math.nan if shown.log_odds is None else shown.log_odds)
        self._clicked.append(shown.clicked)

    def unanswered(self, start: int) -> int:
        """Return how many impressions had no answer, from number `start` on."""
        return int(np.isnan(self._log_odds[start:]).sum())

    def judgement(self, start: int) -> Judgement:
        """Return the mean losses from number `start` on, of those that had an answer."""
        log_odds, clicked = np.array(self._log_odds[start:]), np.array(self._clicked[start:], bool)
        there = ~np.isnan(log_odds)
        if not there.any():
            return NO_JUDGEMENT
        signed = np.where(clicked[there], -log_odds[there], log_odds[there])
        share = float(clicked[there].mean())
        constant = -sum(part * math.log(part) for part in (share, 1 - share) if part)
        return Judgement(float(np.logaddexp(0.0, signed).mean()), constant)
