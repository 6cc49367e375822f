"""The options that say what the fields of records are, by the names of the settings of [input]."""

from typing import Any, NamedTuple

import click

from stream_apple.cli.options.parameters import given_options, option_group
from stream_apple.config import config_of
from stream_apple.config.input_settings import InputSettings
from stream_apple.files import FileNotes, FileShape
from stream_apple.records.mapping import OWN_MESSAGE


class InputOptions(NamedTuple):
    """The options on the fields of records, as they were typed; None, or empty, if they were not."""

    label: str | None
    label_map: str | None
    weight: str | None
    id: str | None
    timestamp: str | None
    features: str | None
    ignore: tuple[str, ...]
    categories: tuple[str, ...]
    numbers: tuple[str, ...]
    times: tuple[str, ...]

    @property
    def typed(self) -> list[str]:
        """The options that were typed."""
        return given_options(*self._fields)

    def shape(self, configured: InputSettings) -> FileShape:
        """Return how records are read: by these options, and where none was typed by the configuration.

        click.UsageError for an option that is no such setting.
        """
        said = {name: value for name, value in self._asdict().items() if value not in {None, ()}}
        for name in ("ignore", "categories", "numbers", "times"):
            if name in said:
                said[name] = [path for each in said[name] for path in each.split(",") if path]
        settings: dict[str, Any] = configured.model_dump(exclude_unset=True) | said
        mapping = config_of({"input": settings}, "options").input.mapping() or OWN_MESSAGE
        return FileShape(mapping, says_features="features" in settings, notes=FileNotes())


_PATHS = "may be repeated, or separated by commas"

input_options = option_group(
    click.option("--label", metavar="FIELD", help="Field or column of the label; '' = none.  [default: label]"),
    click.option("--label-map", metavar="TEXT=N,...", help="Numbers of labels that are words, such as no=0,yes=1."),
    click.option("--weight", metavar="FIELD", help="Field of the importance weight.  [default: weight]"),
    click.option("--id", metavar="FIELD", help="Field of the id, which comes back in predictions.  [default: id]"),
    click.option("--timestamp", metavar="FIELD", help="Field of each example's time."),
    click.option(
        "--features",
        metavar="FIELD",
        help="Field of the map that holds the features; '*' = all fields without a role.  [default: features, or *]",
    ),
    click.option("--ignore", metavar="FIELD", multiple=True, help=f"Fields that are no features; {_PATHS}."),
    click.option("--categories", metavar="FIELD", multiple=True, help=f"Fields of codes: categories; {_PATHS}."),
    click.option("--numbers", metavar="FIELD", multiple=True, help=f"Fields whose texts spell numbers; {_PATHS}."),
    click.option(
        "--times",
        metavar="FIELD",
        multiple=True,
        help=f"Fields of times, which become hour, weekday, and month; {_PATHS}.",
    ),
)
"""Decorates a command with the options of `InputOptions`."""
