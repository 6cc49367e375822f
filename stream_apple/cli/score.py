"""`stream-apple score`: scores instances by a model as it was at any offset."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from stream_apple.cli.options.common import CONFIG_OF_WORKERS, FROM_MODEL, load_with_model
from stream_apple.cli.output import say
from stream_apple.files.input_stream import numbered_lines
from stream_apple.files.reading import file_label, readable_file


@click.command()
@click.argument("file", type=click.Path(allow_dash=True, path_type=Path))
@CONFIG_OF_WORKERS
@click.option(
    "--as-of",
    "as_of",
    required=True,
    metavar="PARTITION@OFFSET",
    help="The model: that of a partition, before it has learned the record at the offset; as_of of a reply.",
)
@FROM_MODEL
def command(file: Path, path: Path | None, as_of: str, from_model: Path | None) -> None:
    """Score the instances of FILE, JSON lines, by a model as it was at any offset.

    Each line is an instance as `serve` takes it, such as {"features": {"price": 1.5}}, and gives a line of JSON: the
    prediction of `serve` with this `as_of`, to the bit. "-" reads from standard input.

    The model is learned again from its newest snapshot, if that is not later than the offset, else from its first
    record. Where models are merged, an offset may have three states: 3@90210:held and 3@90210:passed name those at the
    end of a round, as `boundary` of a reply does.

    Exits with 65 for a line that is no instance, 69 if Kafka does not answer, 70 if needed records are gone, 73 if the
    snapshot is damaged, 78 if there is no such model.
    """
    from stream_apple.app.score import scored
    from stream_apple.stream.walk.moment import Moment

    try:
        moment = Moment.parse(as_of)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--as-of") from error
    config = load_with_model(path, from_model)

    def answers() -> Iterator[dict[str, Any]]:  # apart: an error of printing is none of the file
        name = file_label(file)
        with readable_file(file) as stream:
            yield from scored(config, moment, numbered_lines(stream, name), name)

    for facts in answers():
        say(json.dumps(facts))
