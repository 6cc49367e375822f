"""A confidence sequence for a weighted mean: an interval that may be looked at after each observation.

A confidence interval errs with probability alpha at one time that was fixed before; an observer who looks again and
again, and stops when the result pleases, errs nearly surely. A confidence sequence errs with probability alpha at any
of all times together.

This one is asymptotic (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas: "Time-uniform central limit theory and asymptotic
confidence sequences", Annals of Statistics 2024): after t observations with sample deviation s, the mean is known to
within

    s * sqrt(2 (t r + 1) / (t^2 r) * log(sqrt(t r + 1) / alpha))

where the number r decides at what time the interval is narrowest (Robbins' normal mixture, with the deviation
estimated). It holds in the sense of the central limit theorem: the more observations there are before the first look,
the closer the probability comes to alpha. So there is no interval before FIRST observations. What it assumes:

- Observations need no bound. Losses have none that would be of use: the squared loss is bounded by the labels alone,
  and log-odds within +-50 allow a logistic loss of 50. With such a bound the empirical-Bernstein sequence (Howard,
  Ramdas, McAuliffe, Sekhon: "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics
  2021) holds from the first observation on, and would be several times as wide for as long as anybody waits.
- They need somewhat more than a variance: an absolute moment of an order above two that stays bounded. A few of them
  must not outweigh all others for ever.
- They need be neither independent nor of one distribution. Then the mean of the conditional expectations so far is
  estimated, each given all observations before it (Choe, Ramdas: "Comparing sequential forecasters", Operations
  Research 2023): how much better one predictor has been on this stream, whose means drift. It says nothing about the
  future. Means that drift add to the sample deviation, which makes the interval wider.
- Weights may differ. Then the mean is a ratio of two sums, and s is the deviation of its linear part.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FIRST = 2_000
"""How many observations an interval needs: with fewer, the deviation is not known well enough. With so many, intervals
for a mean of 1 in 100 err as seldom as they should, and those for a mean of 3 in 1,000 twice as often: see
`tests/bench/comparison.py`."""
TUNED_AT = 10_000
"""After so many observations the interval is as narrow as it can be; after a thousand it is wider than it need be by a
quarter, after a million by a sixth."""

Reals = NDArray[np.float64]


class Interval(NamedTuple):
    """A mean, and the distance to either end of its interval, which is infinite before FIRST observations."""

    mean: float
    radius: float


def margin(observations: Reals, alpha: float) -> Reals:
    """Return the radius for a deviation of 1, float64[n], after these numbers of observations.

    >>> margin(np.array([1_000.0, 100_000.0, 10_000_000.0]), 0.05).round(5).tolist()
    [0.12191, 0.01025, 0.00122]
    """
    surprise = -2.0 * math.log(alpha)
    r = (surprise + math.log(surprise + 1.0)) / TUNED_AT  # the paper's approximation of the best
    grown = observations * r + 1.0
    found: Reals = np.sqrt(2.0 * grown / (observations * observations * r) * (0.5 * np.log(grown) - math.log(alpha)))
    return found


class ConfidenceSequence:
    """Keeps the mean of all observations, with an interval that holds at all times at once with probability 1 - alpha.

    interval  the mean and the radius of its interval so far; the mean is NaN before the first observation

    >>> sequence = ConfidenceSequence(alpha=0.05)
    >>> means, radii = sequence.add(np.tile([1.0, 3.0], 2_000))
    >>> float(means[-1]), round(float(radii[-1]), 3)
    (2.0, 0.049)
    >>> sequence.interval == Interval(means[-1], radii[-1])
    True
    """

    def __init__(self, alpha: float) -> None:
        self.observations = 0
        self.interval = Interval(math.nan, math.inf)
        self._alpha = alpha
        self._mean = 0.0
        # With w a weight and d an observation less the mean: the sums of w, w^2, w^2 d, and w^2 d^2.
        self._sums = np.zeros(4)

    def add(self, values: Reals, weights: Reals | None = None) -> tuple[Reals, Reals]:
        """Add the next observations, float64[n]; return mean and radius after each of them, float64[n] each.

        A value of weight 0 is not an observation, and changes nothing. Values and weights have to be finite. How
        observations are cut into calls changes results by rounding only.
        """
        w = np.ones(len(values)) if weights is None else weights
        counts = self.observations + np.cumsum(w > 0.0, dtype=np.int64)
        if not self._sums[0] and w.any():
            self._mean = float(values[np.argmax(w > 0.0)])  # near the others: what is summed stays small
        apart = values - self._mean
        sums = self._sums[:, None] + np.cumsum([w, w * w, w * w * apart, w * w * apart * apart], axis=1)
        moves = np.cumsum(w * apart)
        total, squares, firsts, seconds = sums
        with np.errstate(invalid="ignore", divide="ignore"):  # before the first observation
            moved = np.where(total > 0.0, moves / total, 0.0)
            # About the mean at each time.
            seconds = np.maximum(seconds - 2.0 * moved * firsts + moved * moved * squares, 0.0)
            firsts = firsts - moved * squares
            deviations = np.sqrt(seconds * counts / np.maximum(counts - 1, 1)) * np.sqrt(counts) / total
            radii = deviations * margin(counts.astype(np.float64), self._alpha)
        radii[counts < FIRST] = math.inf
        means = self._mean + moved
        if len(values):
            self.observations, self._mean = int(counts[-1]), float(means[-1])
            self._sums = np.array([total[-1], squares[-1], firsts[-1], seconds[-1]])
            if self.observations:
                self.interval = Interval(self._mean, float(radii[-1]))
        return means, radii
