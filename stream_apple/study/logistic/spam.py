"""How much spam a filter lets through when it may take so much ham for spam; ties are counted as they fall."""

import numpy as np
from numpy.typing import NDArray


def filter_threshold(scores: NDArray[np.float64], spam: NDArray[np.bool_], percent: int = 1) -> float:
    """The lowest threshold such that at most so many percent of the ham have a score above it.

    What is above it is caught. Mails of equal score share their fate, so it may be well below the percentage.
    ValueError if there is no ham.
    """
    ham = np.sort(scores[~spam])[::-1]
    if not len(ham):
        raise ValueError("expected ham to set the threshold by, found none")
    allowed = len(ham) * percent // 100  # in integers: .29 * 100 is below 29
    return float(ham[allowed]) if allowed < len(ham) else -np.inf


def uncaught_by_user(
    scores: NDArray[np.float64], spam: NDArray[np.bool_], users: NDArray[np.int64], threshold: float
) -> dict[int, float]:
    """User -> the share of his spam that is not above the threshold; of users who have spam."""
    missed = scores <= threshold
    counts = np.bincount(users[spam])
    misses = np.bincount(users[spam & missed], minlength=len(counts))
    return {int(user): float(misses[user] / counts[user]) for user in np.flatnonzero(counts)}
