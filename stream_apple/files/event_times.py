"""Timestamps of the examples of files: the one rule of `produce` and `evaluate`.

Example i, counted over all files from 0, has the time in its timestamp field, or, without one, start + i * interval.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from stream_apple.files.reading import read_examples
from stream_apple.files.table import BY_NAME, ColumnRoles
from stream_apple.records.message.example import Example
from stream_apple.records.times import looks_like_time

_LOOKED_AT = 100  # how many examples, from the first on, are looked at
_LOOKED_INTO = 4096  # and how many features of each


class TimeSpan(NamedTuple):
    """How many examples there are, and the lowest and highest of their times, in milliseconds; None: no times."""

    examples: int = 0
    first_ms: int | None = None
    last_ms: int | None = None

    @staticmethod
    def of(examples: Iterable[Example]) -> "TimeSpan":
        """Return the span of these examples, which are read to their end."""
        count, first_ms, last_ms = TimeSpan()
        for count, example in enumerate(examples, 1):  # noqa: B007  what is left of it is the result
            time_ms = example.timestamp_ms
            if time_ms is not None:
                first_ms = time_ms if first_ms is None else min(first_ms, time_ms)
                last_ms = time_ms if last_ms is None else max(last_ms, time_ms)
        return TimeSpan(count, first_ms, last_ms)


class EvenlySpaced(NamedTuple):
    """Timestamps from `start_ms` on, `interval_ms` apart; exact, so that a run that is repeated has the same epochs."""

    start_ms: int
    interval_ms: Fraction

    def at(self, number: int) -> int:
        """Return the time of example `number`, counted from 0, in milliseconds since 1970, rounded down."""
        return self.start_ms + number * self.interval_ms.numerator // self.interval_ms.denominator

    def span(self, count: int) -> TimeSpan:
        """Return the span of the first `count` examples."""
        return TimeSpan(count, self.start_ms, self.at(count - 1)) if count else TimeSpan()

    def ending_at(self, end_ms: int, count: int) -> "EvenlySpaced":
        """Return times that are as far apart, with the last of `count` examples at `end_ms`."""
        return self._replace(start_ms=end_ms - self._replace(start_ms=0).at(max(0, count - 1)))


class TimeLike:
    """Watches examples pass for a feature that seems to be their time, though no timestamp field was given."""

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()
        self._looked = 0

    def passing(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield the examples unchanged, and look at each."""
        for example in examples:
            if self._looked < _LOOKED_AT:
                self._looked += 1
                self._found.update(set(_like_times(example)))
            yield example

    @property
    def name(self) -> str | None:
        """The path of such a feature, or its column, that nine tenths of the first examples have; None if none has."""
        name, count = next(iter(self._found.most_common(1)), ("", 0))
        return name if count and count >= 0.9 * self._looked else None


def _like_times(example: Example) -> Iterator[str]:
    spaces: dict[str, Any] = {name: space for name, space in example.features.items() if isinstance(space, dict)}
    named = (
        (space, *item) for space, features in (spaces or {"": example.features}).items() for item in features.items()
    )
    for space, name, value in islice(named, _LOOKED_INTO):
        column, equals, category = name.partition("=")
        if looks_like_time(column, category if equals else value):
            yield f"{space}.{column}" if space else column


class EventTimes(NamedTuple):
    """The source of the examples' timestamps.

    field   the key that holds each example's own time, in the formats that have keys; None: no example has one
    spaced  the times of examples that have none of their own; None: they get none, which is the time of sending
    """

    field: str | None
    spaced: EvenlySpaced | None

    def examples(
        self, path: Path, first: int = 0, roles: ColumnRoles = BY_NAME, key_field: str | None = None
    ) -> Iterator[Example]:
        """Yield the examples of `path` in order, each with its timestamp; errors are those of `read_examples`.

        first      the number of the file's first example
        roles      what the columns are for, if it is a table
        key_field  which field holds the keys of the records, if one does
        """
        for number, example in enumerate(read_examples(path, self.field, roles, key_field), first):
            if example.timestamp_ms is None and self.spaced is not None:
                yield example._replace(timestamp_ms=self.spaced.at(number))
            else:
                yield example


NO_TIMES = EventTimes(None, None)
"""An example then has no time but that of its sending."""
