"""The forms in which a field, or an option, may hold a point in time; all become milliseconds since 1970, UTC.

    a number of at least 1e11     milliseconds since 1970
    a smaller number              seconds since 1970, with decimals or not
    text that spells a number     the same
    other text                    ISO 8601; without an offset it is UTC
    a timestamp of msgpack, Avro or Protocol Buffers
    a date of Avro, which is its midnight in UTC

1e11 milliseconds is March 1973, and 1e11 seconds is the year 5138, so no time that occurs in a stream is misread.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from math import inf

from stream_apple.core.latest_time import END_MS
from stream_apple.records.spelling import ParseError, spells_plainly

_FIRST_MILLISECONDS = 100_000_000_000
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_OF_TIME = re.compile(r"(?:^|[^a-z])(?:date|datetime|time|timestamp|ts)(?:$|[^a-z])", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXPECTED = "a time from 1970 to 9999 in milliseconds or seconds since 1970 or as ISO 8601"


def looks_like_time(name: str, value: object) -> bool:
    """Return whether a column of this name and value seems to hold the row's time.

    A text does if it is a time that begins with a date; a number does if the name says so and it is a time after 2001.
    """
    if isinstance(value, str):
        return _DATE.match(value) is not None and _read(value) is not None
    if not (isinstance(value, float | int) and _OF_TIME.search(name)):
        return False
    return any(low <= value < 10 * low for low in (10**9, 10**12))


def milliseconds(value: object) -> int:
    """Return `value` in milliseconds since 1970, rounded; ParseError if it is not a time from 1970 to 9999."""
    found = _read(value)
    # The first millisecond of 1970 is refused as well: Kafka's clients take 0 for "no time given".
    if found is None or not 0 < found < END_MS:
        raise ParseError(_EXPECTED, value if not isinstance(value, str) else repr(value))
    return found


def _read(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int() | float():
            return _from_number(value)
        case str():
            return _from_text(value)
        case datetime():
            return _from_datetime(value)
        case date():
            return _from_datetime(datetime.combine(value, time(), UTC))
        case _:
            return None


def _from_number(value: float) -> int | None:
    if not abs(value) < inf:  # unlike `isfinite` it can be asked of an integer that no float holds
        return None
    return round(value if abs(value) >= _FIRST_MILLISECONDS else value * 1000)


def _from_text(text: str) -> int | None:
    for read in (int, float, datetime.fromisoformat):
        try:
            value = read(text)
        except ValueError:
            continue
        if isinstance(value, datetime):
            return _from_datetime(value)
        return _from_number(value) if spells_plainly(text) else None
    return None


def _from_datetime(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    # Half a millisecond and integer division round exactly; a float of seconds would not.
    return (aware - _EPOCH + timedelta(microseconds=500)) // timedelta(milliseconds=1)
