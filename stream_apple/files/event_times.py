"""Which timestamp each example of a run over files has: the one rule of `produce` and `evaluate`.

Example i, counted over all files from 0, has the time that a field of it holds; or else start + i * interval.
"""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from stream_apple.core.codec.example import Example
from stream_apple.files.reading import read_examples
from stream_apple.files.table import BY_NAME, ColumnRoles


class EvenlySpaced(NamedTuple):
    """Timestamps from `start_ms` on, `interval_ms` apart; exact, so that a run that is repeated has the same epochs."""

    start_ms: int
    interval_ms: Fraction

    def at(self, number: int) -> int:
        """Milliseconds since 1970 of example `number`, counted from 0, rounded down."""
        return self.start_ms + number * self.interval_ms.numerator // self.interval_ms.denominator


class EventTimes(NamedTuple):
    """Where the timestamps come from.

    field   the key that holds each example's own time, in the formats that have keys; None: no example has one
    spaced  the times of examples that have none of their own
    """

    field: str | None
    spaced: EvenlySpaced

    def examples(self, path: Path, first: int = 0, roles: ColumnRoles = BY_NAME) -> Iterator[Example]:
        """The examples of `path` in order, each with its timestamp; errors are those of `read_examples`.

        first  the number of the file's first example
        roles  what the columns are for, if it is a table
        """
        for number, example in enumerate(read_examples(path, self.field, roles), first):
            yield example if example.timestamp_ms is not None else example._replace(timestamp_ms=self.spaced.at(number))
