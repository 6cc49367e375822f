"""Champion and challenger: whose losses are smaller, in all and by epoch, and since when that is certain."""

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from stream_apple.comparing.confidence import ConfidenceSequence, Reals

MOST_EPOCHS = 200
"""How many of the newest epochs have figures of their own; older ones count in the whole only."""

Better = Literal["champion", "challenger"]


class PairedLoss(NamedTuple):
    """Both losses of one example, its importance weight, its epoch, and its time in milliseconds since 1970."""

    champion: float
    challenger: float
    weight: float
    epoch: int
    time_ms: int


class LossStanding(NamedTuple):
    """How the two compare over a span of examples.

    pairs            how many examples have both losses and a weight above zero
    champion_loss    the champion's mean loss, by importance weight; NaN before the first pair
    challenger_loss  the challenger's, likewise
    difference       the champion's loss less the challenger's: above zero if the challenger is better
    radius           how far the true difference may be from `difference`, with the confidence that was asked for;
                     infinite while there are too few pairs
    better           which of the two is better; None while that is not certain
    since_ms         event time of the example since which it has been certain, milliseconds since 1970
    """

    pairs: int
    champion_loss: float
    challenger_loss: float
    difference: float
    radius: float
    better: Better | None
    since_ms: int | None

    @property
    def gain(self) -> float:
        """Return the difference as a share of the champion's loss."""
        return self.difference / self.champion_loss if self.champion_loss > 0.0 else math.nan

    @property
    def gain_radius(self) -> float:
        """Return the radius as a share of the champion's loss."""
        return self.radius / self.champion_loss if self.champion_loss > 0.0 else math.inf

    def facts(self) -> dict[str, Any]:
        """Return all figures by name, with both shares."""
        return self._asdict() | {"gain": self.gain, "gain_radius": self.gain_radius}


class _Span:
    """Sums up the pairs of one span."""

    def __init__(self, alpha: float) -> None:
        self._sequence = ConfidenceSequence(alpha)
        self._weight = self._champion = 0.0
        self._better: Better | None = None
        self._since_ms: int | None = None

    def add(self, champion: Reals, challenger: Reals, weights: Reals, times_ms: Sequence[int]) -> None:
        self._weight += float(weights.sum())
        self._champion += float(weights @ champion)
        means, radii = self._sequence.add(champion - challenger, weights)
        # 1 where the challenger is certainly better, -1 where the champion is.
        sure = (means > radii).astype(np.int8) - (means < -radii)
        last = int(sure[-1])
        changed = np.flatnonzero(sure != last)
        better: Better | None = None if last == 0 else "challenger" if last > 0 else "champion"
        if len(changed) or better != self._better:
            self._since_ms = None if better is None else times_ms[int(changed[-1]) + 1 if len(changed) else 0]
        self._better = better

    def standing(self) -> LossStanding:
        mean, radius = self._sequence.interval
        champion = self._champion / self._weight if self._weight else math.nan
        return LossStanding(
            self._sequence.observations, champion, champion - mean, mean, radius, self._better, self._since_ms
        )


class LossComparison:
    """Compares two groups by their losses for the same examples, as these come.

    alpha  the probability that any verdict on the whole, at any time, is wrong. For each epoch's verdicts it is the
           same by itself, so that of a hundred epochs a few verdicts are wrong

    unbounded  for how many examples a loss was infinite or NaN: their mean would say nothing, so nothing is certain
    """

    def __init__(self, alpha: float) -> None:
        self.unbounded = 0
        self._alpha = alpha
        self._whole = _Span(alpha)
        self._epochs: OrderedDict[int, _Span] = OrderedDict()

    def add(self, pairs: Sequence[PairedLoss]) -> None:
        """Add the next pairs."""
        finite = [pair for pair in pairs if math.isfinite(pair.champion) and math.isfinite(pair.challenger)]
        self.unbounded += len(pairs) - len(finite)
        if not finite:
            return
        champion, challenger, weights = np.array([pair[:3] for pair in finite], np.float64).T
        times_ms, epochs = [pair.time_ms for pair in finite], np.array([pair.epoch for pair in finite], np.int64)
        self._whole.add(champion, challenger, weights, times_ms)
        for epoch in np.unique(epochs).tolist():
            rows = np.flatnonzero(epochs == epoch)
            if epoch not in self._epochs:
                self._epochs[epoch] = _Span(self._alpha)
            self._epochs[epoch].add(champion[rows], challenger[rows], weights[rows], [times_ms[row] for row in rows])
        while len(self._epochs) > MOST_EPOCHS:
            del self._epochs[min(self._epochs)]

    def whole(self) -> LossStanding:
        """Return how the two compare over all pairs; once a loss was unbounded, nothing is certain."""
        found = self._whole.standing()
        return found._replace(better=None, since_ms=None, radius=math.inf) if self.unbounded else found

    def epochs(self) -> dict[int, LossStanding]:
        """Return how the two compare in each of the newest epochs, by their numbers, ascending."""
        return {epoch: self._epochs[epoch].standing() for epoch in sorted(self._epochs)}
