"""The options that say when the examples of files happened: the same for `produce` and `evaluate`."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import click

from stream_apple.cli.parameters import duration
from stream_apple.files import EvenlySpaced, EventTimes, ParseError, milliseconds


class Times(NamedTuple):
    """The examples' timestamps, as they were given; None is not given. Times and durations are milliseconds."""

    timestamp_field: str | None
    start_time: int | None
    interval: int | None

    def check(self) -> None:
        """click.UsageError for options that contradict each other."""
        if self.timestamp_field is not None and (self.start_time is not None or self.interval is not None):
            raise click.UsageError(
                "--timestamp-field takes each time from the file: --start-time and --interval do not apply"
            )

    def event_times(self, start_ms: int, interval_ms: Fraction) -> EventTimes:
        """The rule that follows, with a start and an interval for where none is given."""
        spaced = EvenlySpaced(
            start_ms if self.start_time is None else self.start_time,
            interval_ms if self.interval is None else Fraction(self.interval),
        )
        return EventTimes(self.timestamp_field, spaced)


def times_options(start: str, interval: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with the options of `Times`; `start` and `interval` name their defaults in `--help`."""
    options: list[Callable[[Any], Any]] = [
        click.option(
            "--timestamp-field",
            metavar="NAME",
            help="Key or column that holds each example's time: ms or s since 1970, or ISO 8601.",
        ),
        click.option(
            "--start-time",
            callback=_start,
            metavar="TIME",
            help=f"Time of the first example.  [default: {start}]",
        ),
        click.option(
            "--interval",
            callback=duration(least=0),
            metavar="DURATION",
            help="Time from one example to the next, such as 20ms." + (f"  [default: {interval}]" if interval else ""),
        ),
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        # From the last to the first, as decorators are applied.
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _start(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else milliseconds(value)
    except ParseError as error:
        raise click.BadParameter(str(error)) from None
