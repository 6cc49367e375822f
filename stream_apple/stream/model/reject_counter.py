"""Decides when so many records can't be used that the worker must stop: the producer is then likely to be broken."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WINDOW = 10_000
"""The share of rejects is taken of so many records, the newest ones."""
WINDOW_START = 1_000
"""Before so many records the share is not judged: a topic may begin with a few bad ones."""


class RejectLimits(NamedTuple):
    """More than `max_consecutive` rejects in a row, or more than the share `max_share` of the window, are too many."""

    max_consecutive: int
    max_share: float


class RejectCounter:
    """Counts the rejects of one partition; what it decides depends on the sequence of records alone.

    recent  bool[<= WINDOW], the newest records in order, True = rejected
    run     how many rejects the sequence ends with

    Both are part of the model's state: a restored model must decide as the original.
    """

    def __init__(self, limits: RejectLimits) -> None:
        self.limits = limits
        self.recent: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.run = 0

    def observe(self, rejected: NDArray[np.bool_], judged_from: int = 0) -> tuple[int, str] | None:
        """Count the next records; return (index, explanation) of the first at which rejects are too many, else None.

        Records before index `judged_from` are counted and not judged: they were accepted before a recovery.
        """
        history = np.concatenate((self.recent, rejected))
        if len(rejected) and not history.any():
            # This is nearly always so: the share is 0, and there is no run.
            self.recent, self.run = history[-WINDOW:], 0
            return None
        rows = np.arange(len(rejected))
        before = np.concatenate(([0], np.cumsum(history)))
        stops = len(self.recent) + rows + 1
        # Every window ends at its record and reaches back to the first record known, if it is not full yet.
        sizes = np.minimum(stops, WINDOW)
        shares = (before[stops] - before[stops - sizes]) / sizes
        last_good = np.maximum.accumulate(np.where(rejected, -1, rows))
        runs = np.where(last_good >= 0, rows - last_good, self.run + rows + 1)

        too_long = runs > self.limits.max_consecutive
        too_many = (sizes >= WINDOW_START) & (shares > self.limits.max_share)
        self.recent = history[-WINDOW:]
        self.run = int(runs[-1]) if len(runs) else self.run
        found = np.flatnonzero((too_long | too_many)[judged_from:])
        if not len(found):
            return None
        row = judged_from + int(found[0])
        if too_long[row]:
            allowed = f"{self.limits.max_consecutive} unusable records in a row (limits.max_consecutive_rejects)"
            return row, f"expected at most {allowed}, found {runs[row]}"
        count = int(before[stops[row]] - before[stops[row] - sizes[row]])
        return row, (
            f"expected at most {self.limits.max_share:.0%} unusable records (limits.max_reject_share), "
            f"found {count} of the last {sizes[row]}"
        )
