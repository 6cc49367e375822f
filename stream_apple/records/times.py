"""The forms in which a field, or an option, may hold a point in time; all become milliseconds since 1970, UTC.

    a number                      seconds, milliseconds, microseconds, or nanoseconds since 1970, by its size
    text that spells a number     the same
    ISO 8601                      with T or a space, - or / in the date, hours of one digit; without an offset it is UTC
    RFC 2822                      Wed, 01 May 2024 10:00:00 +0200
    a timestamp of a format       of msgpack, Avro, Protocol Buffers, or Parquet
    a date of a format            its midnight in UTC

An offset is Z, UTC, GMT, +02:00, +0200, or +02. What Go and Java write behind it (`+0000 UTC`, `[Europe/Rome]`) adds
nothing. A date such as 05/01/2024 is refused: it is in May or in January.

1e11 milliseconds is March 1973, and 1e11 seconds is the year 5138, so no time that occurs in a stream is misread. The
same holds for 1e14 microseconds and 1e17 nanoseconds.
"""

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from email.utils import parsedate_to_datetime
from math import inf

from stream_apple.core.timestamps import END_MS
from stream_apple.records.spelling import ParseError, spells_plainly

_FIRST_OF_UNIT = ((10**17, 10**6), (10**14, 10**3), (10**11, 1))
"""The smallest number that counts in a unit, and how many of the unit are a millisecond."""
_DATED = re.compile(
    r"""\s*(?P<year>\d{4})(?P<between>[-/])(?P<month>\d\d?)(?P=between)(?P<day>\d\d?)
    (?:(?:T|\s+)(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?
    \s*(?:Z|UTC|GMT|(?P<sign>[-+])(?P<hours>\d\d):?(?P<minutes>\d\d)?(?:\s+[A-Z]{1,5})?)?(?:\[[\w/+-]+\])?)?\s*""",
    re.VERBOSE | re.ASCII,
)
_RFC_2822 = re.compile(r"\s*(?:[A-Za-z]{3},\s*)?\d\d?\s+[A-Za-z]{3}\s+\d{4}\s+\d\d?:\d\d", re.ASCII)
_AMBIGUOUS = re.compile(r"\s*\d\d?[/.-]\d\d?[/.-]\d{4}(?!\d)", re.ASCII)
_BEGINS_LIKE_A_DATE = re.compile(r"\s*\d{4}[-/]\d\d?[-/]\d\d?(?!\d)", re.ASCII)
_TIME_OF_DAY = re.compile(r"(\d\d?):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?", re.ASCII)
_OF_TIME = re.compile(r"(?:^|[^a-z])(?:date|datetime|time|timestamp|ts)(?:$|[^a-z])", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXPECTED = "a time from 1970 to 9999 (ISO 8601, RFC 2822, or seconds to nanoseconds since 1970)"
_YEAR_FIRST = ", with the year first, as nobody can know which number is the month"


def time_text(time_ms: int) -> str:
    """Return a time as ISO 8601 text in UTC, to the millisecond if it is no whole second; as a number past 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms since 1970"
    return moment.isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds").replace("+00:00", "Z")


def begins_like_date(text: str) -> bool:
    """Return whether a text begins like a date, be it a time that can be read or not."""
    return any(form.match(text) for form in (_BEGINS_LIKE_A_DATE, _AMBIGUOUS, _RFC_2822))


def looks_like_time(name: str, value: object) -> bool:
    """Return whether a field of this name and value seems to hold the record's time.

    A text does if it begins like a date; a number does if the name says so and it is a time after 2001.
    """
    if isinstance(value, str):
        return begins_like_date(value)
    if isinstance(value, datetime | date):
        return True
    if not isinstance(value, float | int) or isinstance(value, bool) or not _OF_TIME.search(name):
        return False
    return any(low <= value < 10 * low for low in (10**9, 10**12, 10**15, 10**18))


def milliseconds(value: object) -> int:
    """Return `value` in milliseconds since 1970, rounded; ParseError if it is not a time from 1970 to 9999."""
    found = _read(value)
    # The first millisecond of 1970 is refused as well: Kafka's clients take 0 for "no time given".
    if found is None or not 0 < found < END_MS:
        ambiguous = isinstance(value, str) and _AMBIGUOUS.match(value)
        raise ParseError(
            _EXPECTED + (_YEAR_FIRST if ambiguous else ""), value if not isinstance(value, str) else repr(value)
        )
    return found


def hour_of(value: object) -> int | None:
    """Return the hour of a time of day, or of a text that spells one; None for all else."""
    if isinstance(value, time):
        return value.hour
    found = _TIME_OF_DAY.fullmatch(value) if isinstance(value, str) else None
    hour = -1 if found is None else int(found.group(1))
    return hour if 0 <= hour < 24 else None


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
    for first, of_unit in _FIRST_OF_UNIT:
        if abs(value) >= first:
            return (2 * value + of_unit) // (2 * of_unit) if isinstance(value, int) else round(value / of_unit)
    return round(value * 1000)


def _from_text(text: str) -> int | None:
    for read in (int, float):
        try:
            value = read(text)
        except ValueError:
            continue
        return _from_number(value) if spells_plainly(text) else None
    try:
        return _from_datetime(_moment(text))
    except (ValueError, OverflowError):
        return None


def _moment(text: str) -> datetime:
    """Return the moment that a text spells; ValueError if it spells none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        found = _DATED.fullmatch(text)
    if found is None:
        if _RFC_2822.match(text):
            return parsedate_to_datetime(text)
        raise ValueError(text)
    part = found.groupdict(default="")
    offset = timedelta(hours=int(part["hours"] or 0), minutes=int(part["minutes"] or 0))
    year, month, day, hour, minute, second = (
        int(part[name] or 0) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    zone = timezone(-offset if part["sign"] == "-" else offset)
    return datetime(year, month, day, hour, minute, second, int(part["fraction"][:6].ljust(6, "0")), zone)


def _from_datetime(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    # Half a millisecond and integer division round exactly; a float of seconds would not.
    return (aware - _EPOCH + timedelta(microseconds=500)) // timedelta(milliseconds=1)
