"""The settings that decide what is joined: what comes of two logs depends on them, and on the logs, alone."""

import hashlib
import json
from typing import Literal, NamedTuple, TypeAlias

Several: TypeAlias = Literal["first", "last", "sum", "max"]

FORMAT = 1
"""Changes with everything that makes the same settings and logs give other examples."""


class JoinRule(NamedTuple):
    """Says what is joined with what, and when; times are in milliseconds.

    impressions, outcomes  the topics
    wait           so long after an impression its outcomes count
    tolerance      so far the clocks of producers may lie apart, and so late a record may reach its log
    default_label  of an impression without an outcome; None: it makes no example
    several        which of several outcomes of one impression counts
    max_outcomes   that are held in memory, of a partition; what is more waits in the log
    max_bytes      of a record's value
    """

    impressions: str
    outcomes: str
    wait_ms: int
    tolerance_ms: int
    default_label: float | None
    several: Several
    max_outcomes: int
    max_bytes: int

    @property
    def hold_ms(self) -> int:
        """Return for how long, by the clock, an outcome is held: later, no impression that is not late can need it."""
        return self.wait_ms + 3 * self.tolerance_ms

    @property
    def fingerprint(self) -> str:
        """Return 16 hex digits, which differ between rules that may join the same logs differently."""
        deciding = self._replace(max_outcomes=0)
        return hashlib.sha256(json.dumps([FORMAT, *deciding]).encode()).hexdigest()[:16]
