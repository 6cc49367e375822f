"""The options that many commands have, each declared once."""

from pathlib import Path

import click

from stream_apple.cli.options.parameters import WholeNumber
from stream_apple.config import Config, load

CONFIG = click.option("--config", "path", type=click.Path(path_type=Path), help="TOML file.")
CONFIG_OF_WORKERS = click.option(
    "--config", "path", type=click.Path(path_type=Path), help="TOML file, the workers' own."
)
FROM_MODEL = click.option(
    "--from-model",
    type=click.Path(path_type=Path),
    help="Model file that new models start from; in place of the setting worker.from_model.",
)
PARTITIONS = click.option(
    "--partition",
    "partitions",
    type=WholeNumber(0),
    multiple=True,
    help="Partition of the examples topic; may be repeated.  [default: all]",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def load_with_model(path: Path | None, from_model: Path | None) -> Config:
    """Return the configuration, with the file that models start from in place of its own, if one is named."""
    config = load(path)
    return config if from_model is None else config.with_worker(from_model=str(from_model))
