"""The options that say what files don't: the times of examples, their keys, and the meaning of columns.

`produce` and `evaluate` have them.
"""

import time
from fractions import Fraction
from typing import Any, NamedTuple

import click

from stream_apple.cli.options.parameters import Decorator, duration, option_group, parsed_by
from stream_apple.config import config_of
from stream_apple.config.duration import parse_duration
from stream_apple.config.input_settings import InputSettings
from stream_apple.files import ROLES, ColumnRoles, EvenlySpaced, EventTimes, ParseError, milliseconds
from stream_apple.records.mapping import OWN_MESSAGE
from stream_apple.records.parsing import repeated

_CATEGORY, _IGNORE = "category", "ignore"


class Times(NamedTuple):
    """The options on the examples' times, in milliseconds; None if not given."""

    timestamp_field: str | None
    start_time: int | None
    interval: int | None

    def check(self) -> None:
        """Raise click.UsageError for options that contradict each other."""
        if self.timestamp_field is not None and (self.start_time is not None or self.interval is not None):
            raise click.UsageError(
                "--timestamp-field takes each time from the file: --start-time and --interval do not apply"
            )

    def event_times(self, start_ms: int, interval_ms: Fraction) -> EventTimes:
        """Return the rule for timestamps; this start and interval are used if the options give none."""
        if self.timestamp_field is not None:
            return EventTimes(self.timestamp_field, None)
        spaced = EvenlySpaced(
            start_ms if self.start_time is None else self.start_time,
            interval_ms if self.interval is None else Fraction(self.interval),
        )
        return EventTimes(None, spaced)


def times_options(start: str, interval: str = "") -> Decorator:
    """Return a decorator with the options of `Times`; `start` and `interval` name their defaults in `--help`."""
    return option_group(
        click.option(
            "--timestamp-field",
            metavar="NAME",
            help="Key or column that holds each example's time: ms or s since 1970, or ISO 8601.",
        ),
        click.option(
            "--start-time",
            "--start",
            "start_time",
            callback=parsed_by(_start),
            metavar="TIME",
            help=f"Time of the first example; -14h is so long ago.  [default: {start}]",
        ),
        click.option(
            "--interval",
            callback=duration(least=0),
            metavar="DURATION",
            help="Time from one example to the next, such as 20ms." + (f"  [default: {interval}]" if interval else ""),
        ),
    )


def time_of_day_ms() -> int:
    """Return the time of day, milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _start(value: str) -> int:
    try:
        return time_of_day_ms() + _from_now(value)
    except ValueError:
        pass
    try:
        return milliseconds(value)
    except ParseError as error:
        raise ValueError(f"{error}, or as a duration before or after now, such as -14h") from None


def _from_now(text: str) -> int:
    """Return a duration with its sign, such as -14h, in milliseconds; ValueError if `text` is none."""
    if text[:1] not in {"-", "+"}:
        raise ValueError(text)
    return parse_duration(text[1:]) * (-1 if text[0] == "-" else 1)


class ColumnOptions(NamedTuple):
    """The options on columns and keys, as they were given.

    column     pairs of a role, `category` or `ignore`, and a column's name
    input      settings of the section `input`, those that were typed as text
    key_field  the field that holds the keys of the records; None: the ids are the keys
    """

    column: tuple[tuple[str, str], ...]
    input: dict[str, Any]
    key_field: str | None

    def timed(self, times: Times) -> Times:
        """Return the options on times with the field that a mapping takes the time from."""
        return times if times.timestamp_field else times._replace(timestamp_field=self.input.get("timestamp"))

    def in_place_of(self, configured: InputSettings) -> "ColumnOptions":
        """Return the options with those settings of a configuration that were not typed; --column excludes them."""
        return self if self.column else self._replace(input=configured.model_dump(exclude_unset=True) | self.input)

    def roles(self, timestamp_field: str | None) -> ColumnRoles:
        """Return the columns' roles; click.UsageError for options that contradict each other."""
        if self.input:
            if self.column:
                raise click.UsageError("--input and --column say the same in two ways: expected one of them")
            mapping = config_of({"input": self.input}, "--input").input.mapping() or OWN_MESSAGE
            return ColumnRoles(mapping=mapping._replace(timestamp=timestamp_field or mapping.timestamp), met=set())
        named = {role: name for role, name in self.column if role in ROLES}
        if len(named) < sum(role in ROLES for role, _ in self.column):
            raise click.UsageError("--column: expected each of label, weight and id at most once")
        names = [name for _, name in self.column if name]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise click.UsageError(f"--column: expected each column at most once, found {twice!r} again")
        return ColumnRoles(
            named,
            frozenset(name for role, name in self.column if role == _CATEGORY),
            frozenset(name for role, name in self.column if role == _IGNORE),
        )


def _pair(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for value in values:
        role, equals, name = value.partition("=")
        if not equals or role not in {*ROLES, _CATEGORY, _IGNORE} or not (name or role in ROLES):
            raise click.BadParameter(
                f"expected label=NAME, weight=NAME, id=NAME, category=NAME or ignore=NAME, found {value!r}"
            )
        pairs.append((role, name))
    return tuple(pairs)


def _settings(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    wrong = next((value for value, (_, equals, _) in zip(values, pairs, strict=True) if not equals), None)
    if wrong is not None:
        raise click.BadParameter(f"expected SETTING=VALUE, such as label=clicked, found {wrong!r}")
    twice = repeated(name for name, _, _ in pairs)
    if twice is not None:
        raise click.BadParameter(f"expected each setting once, as in ignore=one,two, found {twice!r} again")
    return {name: value for name, _, value in pairs}


column_options = option_group(
    click.option(
        "--column",
        multiple=True,
        callback=_pair,
        metavar="ROLE=NAME",
        help="In CSV and Parquet: the column that is the label, weight or id (none: label=), holds categories "
        "(category=), or is no feature (ignore=).  [default: columns of these names]",
    ),
    click.option(
        "--input",
        multiple=True,
        callback=_settings,
        metavar="SETTING=VALUE",
        help="A setting of the section `input`: label=clicked, features=*, label_map=yes=1,no=0.",
    ),
    click.option(
        "--key-field",
        metavar="NAME",
        help="Key or column that holds each record's key; in Vowpal Wabbit text the namespace of one "
        "feature, in svmlight qid.  [default: the id, or the number]",
    ),
)
"""Decorates a command with the options of `ColumnOptions`."""
