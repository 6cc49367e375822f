"""Event times and spans of time in Python's types, and as whole milliseconds."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.timestamps import END_MS
from stream_apple.library.cells import is_missing
from stream_apple.records.spelling import ParseError
from stream_apple.records.times import milliseconds

Time = datetime | np.datetime64 | float
"""A point of time; one without a zone is in UTC, and a number is seconds since 1970."""


def milliseconds_of(times: Iterable[Time]) -> NDArray[np.int64]:
    """Return the milliseconds since 1970 of each time, int64[n], rounded as those of a worker's records are.

    ValueError for anything that is not a time, and for a time of which a worker makes a dead letter: one that is not
    after the beginning of 1970, and before the year 10000.
    """
    given = list(times)
    found = [_milliseconds(time) for time in given]
    for time, since_1970 in zip(given, found, strict=True):
        if not 0 < since_1970 < END_MS:
            raise ValueError(f"time: expected one after the beginning of 1970, before the year 10000, found {time!r}")
    return np.array(found, np.int64)


def span_of(length: str | timedelta | None) -> int | None:
    """Return the milliseconds of a span such as "1h", or None if there is none.

    The form of the text is that of `epochs.length` in the configuration. ValueError for anything else, and for a span
    of less than a millisecond.
    """
    if length is None:
        return None
    if isinstance(length, timedelta):
        found = length // timedelta(milliseconds=1)
    elif isinstance(length, str):
        from stream_apple.config.duration import parse_duration

        try:
            found = parse_duration(length)
        except ValueError as error:
            raise ValueError(f"epoch_length: {error}") from None
    else:
        raise ValueError(  # noqa: TRY004  a parameter of an estimator
            f"epoch_length: expected None, a timedelta, or a text such as '1h', found {length!r}"
        )
    if found < 1:
        raise ValueError(f"epoch_length: expected a span of at least a millisecond, found {length!r}")
    return found


def _milliseconds(time: Time) -> int:
    """Return the milliseconds of one time; a number that is none of a record for a time that no record may have."""
    if is_missing(time):
        raise ValueError(f"time: expected a datetime, or seconds since 1970, found {time!r}")
    if isinstance(time, np.datetime64):
        whole = time.astype("datetime64[ms]")
        return int(whole.astype(np.int64)) + int(time - whole >= np.timedelta64(500, "us"))
    if isinstance(time, datetime):
        try:
            return milliseconds(time)
        except ParseError:
            return 0
    given: object = time
    if isinstance(given, bool) or not isinstance(given, float | int | np.integer | np.floating):
        raise ValueError(f"time: expected a datetime, or seconds since 1970, found {time!r}")  # noqa: TRY004  as above
    return round(float(min(max(time, 0), END_MS)) * 1000.0)
