"""The option --from-model of commands that are about a group's models: the file that these start from."""

from pathlib import Path

import click

from stream_apple.config import Config

FROM_MODEL = click.option(
    "--from-model",
    type=click.Path(path_type=Path),
    help="Model file that new models start from; in place of the setting worker.from_model.",
)


def started_from_model(config: Config, path: Path | None) -> Config:
    """Return the configuration with the file that models start from, if one is named."""
    if path is None:
        return config
    return config.model_copy(update={"worker": config.worker.model_copy(update={"from_model": str(path)})})
