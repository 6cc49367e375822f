"""Spans of time as text, kept as whole milliseconds."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
FOREVER = 1 << 62
"""Milliseconds that never pass; written as `forever` where a setting allows it."""

MANY_EPOCHS = 200
"""With so many epochs it is worth advising a better length if each is too short."""
FEW_EXAMPLES = 200
"""An epoch with fewer examples is too short: even with the smallest models its end takes as long as learning 1,000."""
_ENOUGH_EXAMPLES = 1000
_ROUND = (
    *(MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR),
    *(DAY, 2 * DAY, 7 * DAY, 30 * DAY, 90 * DAY),
)

_UNITS = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": 1}
_FOREVER = "forever"
_PATTERN = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in _UNITS))


def parse_duration(text: str) -> int:
    """Return the milliseconds in `text`: whole numbers of d, h, m, s and ms, largest first; ValueError otherwise."""
    found = _PATTERN.fullmatch(text)
    if not text or found is None:
        raise ValueError(f"expected a duration such as '250ms', '5m' or '1h30m', found {text!r}")
    return sum(int(count or 0) * unit for count, unit in zip(found.groups(), _UNITS.values(), strict=True))


def format_duration(milliseconds: int) -> str:
    """Return the shortest text that `parse_duration` reads back as `milliseconds` (>= 0)."""
    parts = []
    rest = milliseconds
    for name, unit in _UNITS.items():
        count, rest = divmod(rest, unit)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts) or "0ms"


def longer_epoch(length_ms: int, examples: int, epochs: int) -> int | None:
    """Return a better length of epochs if those of `length_ms` have so few examples that their ends cost most time.

    Returns None if epochs are long enough, or too few to tell, or if no longer round length is known.
    """
    if epochs < MANY_EPOCHS or examples >= FEW_EXAMPLES * epochs:
        return None
    wanted = length_ms * _ENOUGH_EXAMPLES * epochs / max(examples, 1)
    longer = [each for each in _ROUND if each > length_ms]
    return next((each for each in longer if each >= wanted), longer[-1] if longer else None)


def _from_text(value: object) -> object:
    # A bare number has no unit, and a guess would make 500 s of 500 ms.
    if not isinstance(value, str):
        raise ValueError("a duration is text with a unit")  # noqa: TRY004  pydantic turns only ValueError into a fault
    return parse_duration(value)


Duration = Annotated[
    int,
    BeforeValidator(_from_text),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    Field(json_schema_extra={"unit": "milliseconds"}),
]
"""Whole milliseconds; written in the configuration, and in its JSON form, as text with units."""


Patience = Annotated[
    int,
    BeforeValidator(lambda value: FOREVER if value == _FOREVER else _from_text(value)),
    PlainSerializer(
        lambda length: _FOREVER if length == FOREVER else format_duration(length), return_type=str, when_used="json"
    ),
    Field(json_schema_extra={"unit": "milliseconds", "expected": "a duration such as '10s', from 100ms, or 'forever'"}),
]
"""A duration, or `forever`."""
