"""The loop's transaction as a matter of bookkeeping: whether one is open, since when, and when it is to be committed.

What is done with it, at the broker, is in `loop.py` alone.
"""

import time
from collections.abc import Callable
from typing import NamedTuple


class LoopSettings(NamedTuple):
    """How much is fetched at once, what makes a commit due, whichever comes first, how often models are saved.

    threads  how many learn
    """

    fetch_records: int
    commit_records: int
    commit_interval_s: float
    snapshot_interval_s: float
    threads: int = 1


class Transaction:
    """Keeps the books of one transaction after the other; at most one is open.

    open      whether there is one
    failures  how often in a row there was reason to start over since the last commit
    settings  of the loop
    """

    def __init__(self, settings: LoopSettings, now: Callable[[], float] = time.monotonic) -> None:
        self.open = False
        self.failures = 0
        self.settings = settings
        self._now = now
        self._since = 0.0
        self._outputs = 0

    @property
    def due(self) -> bool:
        """Whether it has been open for long enough, or holds enough outputs, to be committed."""
        return self.open and (
            self._outputs >= self.settings.commit_records
            or self._now() - self._since >= self.settings.commit_interval_s
        )

    def begin(self) -> None:
        """A transaction is open from now on; there was none."""
        self.open = True
        self._since = self._now()
        self._outputs = 0

    def add(self, outputs: int) -> None:
        """The open transaction holds so many predictions and dead letters more."""
        self._outputs += outputs

    def committed(self) -> None:
        """The broker has committed the transaction, which ends a row of failures."""
        self.open = False
        self.failures = 0

    def aborted(self) -> None:
        """The broker has aborted the transaction: no reader ever sees anything of it."""
        self.open = False
