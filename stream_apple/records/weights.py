"""The scale of importance weights.

Weights of 1/n, as boosting and normalized sample weights have them, make every step of a learner tiny. The whole set is
not known on a stream, so nothing is scaled; whoever sends such weights is told.
"""

from collections.abc import Iterable

_WEIGHTS = 1000
_LOW, _HIGH = 0.01, 10.0


class WeightScale:
    """Adds up the first _WEIGHTS weights of a stream.

    count  how many there are so far
    """

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0

    def add(self, weights: Iterable[float]) -> None:
        """Add the next weights; those after the first _WEIGHTS are left out."""
        for weight in weights:
            if self.count >= _WEIGHTS:
                break
            self.count += 1
            self._sum += weight

    @property
    def mean(self) -> float:
        """The mean of the weights so far; 1 if there were none."""
        return self._sum / self.count if self.count else 1.0

    @property
    def hint(self) -> str:
        """What to say about the weights; "" if there is nothing to say."""
        if _LOW <= self.mean <= _HIGH:
            return ""
        return (
            f"the mean of the first {self.count:,} weights is {self.mean:.3g}, which scales each step of the learner: "
            "expected weights with a mean near 1"
        )
