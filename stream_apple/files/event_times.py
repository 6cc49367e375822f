"""Timestamps of the examples of files: the one rule of `produce` and `evaluate`.

Example i, counted over all files from 0, has the time that its record holds, or, without one, start + i * interval.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from stream_apple.files.reading import read_examples
from stream_apple.files.shape import BY_NAME, FileShape
from stream_apple.records.message.example import Example


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


class EventTimes(NamedTuple):
    """The source of the timestamps of examples that have none of their own.

    spaced  their times; None: they get none, which is the time of sending
    """

    spaced: EvenlySpaced | None

    def examples(
        self, path: Path, first: int = 0, shape: FileShape = BY_NAME, key: str = "", *, with_records: bool = False
    ) -> Iterator[Example]:
        """Yield the examples of `path` in order, each with its timestamp; arguments and errors as of `read_examples`.

        first  the number of the file's first example
        """
        for number, example in enumerate(read_examples(path, shape, key, with_records=with_records), first):
            if example.timestamp_ms is None and self.spaced is not None:
                yield example._replace(timestamp_ms=self.spaced.at(number))
            else:
                yield example


NO_TIMES = EventTimes(None)
"""An example then has no time but that of its sending."""
