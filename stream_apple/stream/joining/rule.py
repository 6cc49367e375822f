"""The settings that decide what is joined: the result depends only on them and on the two logs."""

import hashlib
import json
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from stream_apple.config import Config
from stream_apple.config.duration import DAY
from stream_apple.records.mapping import InputMapping

Several: TypeAlias = Literal["first", "last", "sum", "max"]

FORMAT = 1
"""Must change whenever the same settings and logs give other examples."""


MOST_AHEAD_MS = 6 * DAY
"""How far an impression's timestamp may be ahead of the heartbeat that finds it in the log. Its example has the same
timestamp, which the examples topic refuses from a week on (`adapters/kafka/topics.py`); clocks differ."""


class JoinRule(NamedTuple):
    """Says what is joined with what, and when; times are in milliseconds.

    impressions, outcomes  the topics
    wait_ms          how long after an impression its outcomes count
    tolerance_ms     how far the clocks of producers may differ, and how late a record may reach its log
    default_label    of an impression without an outcome; None: it makes no example
    several          which of several outcomes of one impression counts
    max_outcomes     how many are kept in memory for a partition; further ones wait in the log
    max_bytes        the largest size of a record's value
    impression_shape, outcome_shape  say which fields of records are what; None: the product's own format
    on_outcome       whether an impression is sent as soon as it has an outcome
    max_impressions  how many are kept in memory for that, for a partition
    examples         the topic that they are written to; no example depends on its name
    """

    impressions: str
    outcomes: str
    wait_ms: int
    tolerance_ms: int
    default_label: float | None
    several: Several
    max_outcomes: int
    max_bytes: int
    impression_shape: InputMapping | None = None
    outcome_shape: InputMapping | None = None
    on_outcome: bool = False
    max_impressions: int = 0
    examples: str = ""

    @classmethod
    def of(cls, config: Config) -> "JoinRule":
        """Return the rule that a configuration has."""
        join = config.join
        return cls(
            join.impressions,
            join.outcomes,
            join.wait,
            join.tolerance,
            join.default_label,
            join.several,
            join.max_outcomes,
            config.limits.max_record_bytes,
            config.impression_shape,
            config.outcome_shape,
            join.emit == "on_outcome",
            join.max_impressions,
            config.topics.examples,
        )

    @property
    def window_ms(self) -> int:
        """Return for how long, by the clock, an outcome is kept; after that only late impressions could need it."""
        return self.wait_ms + 3 * self.tolerance_ms

    @property
    def fingerprint(self) -> str:
        """Return 16 hex digits that differ between rules which may join the same logs differently."""
        return _digest(self._replace(max_outcomes=0, max_impressions=0)[: self._fields.index("examples")])

    @property
    def early_fingerprint(self) -> str:
        """Return 16 hex digits that differ between rules which may send other impressions early."""
        return _digest((self.wait_ms, self.tolerance_ms, self.max_bytes, self.impression_shape, self.outcome_shape))


def _digest(deciding: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([FORMAT, *deciding], default=dict).encode()).hexdigest()[:16]
