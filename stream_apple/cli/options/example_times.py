"""The options on the times of examples whose records hold none. `produce` and `evaluate` have them."""

import time
from fractions import Fraction
from typing import NamedTuple

import click

from stream_apple.cli.options.parameters import Decorator, duration, option_group, parsed_by
from stream_apple.config.duration import parse_duration
from stream_apple.files import EvenlySpaced, EventTimes, ParseError, milliseconds


class Times(NamedTuple):
    """The options on the examples' times, in milliseconds; None if not given."""

    start_time: int | None
    interval: int | None

    def check(self, timestamp: str) -> None:
        """Raise click.UsageError for options that contradict each other; `timestamp` is the field that holds times."""
        if timestamp and (self.start_time is not None or self.interval is not None):
            raise click.UsageError(
                f"--timestamp takes each time from the field {timestamp!r}: --start-time and --interval do not apply"
            )

    def event_times(self, start_ms: int, interval_ms: Fraction) -> EventTimes:
        """Return the times of examples that have none; this start and interval are used if the options give none."""
        spaced = EvenlySpaced(
            start_ms if self.start_time is None else self.start_time,
            interval_ms if self.interval is None else Fraction(self.interval),
        )
        return EventTimes(spaced)


def times_options(start: str, interval: str = "") -> Decorator:
    """Return a decorator with the options of `Times`; `start` and `interval` name their defaults in `--help`."""
    return option_group(
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
