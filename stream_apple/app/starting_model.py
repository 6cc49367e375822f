"""The model file that a group's models start from: it is read once, checked, and adopted by each new model."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from stream_apple.adapters.kafka.admin import Finding
from stream_apple.app.model_files import opened_model, read_model_bytes
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError, SnapshotError
from stream_apple.learners.merging_port import Mergeable, check_startable
from stream_apple.learners.systems import merging_of
from stream_apple.stream.positions.lineage import STARTED_FROM, Provenance, started_from

_SETTING = "worker.from_model"


def starting_model(config: Config, provenance: Provenance) -> Mergeable | None:
    """Return the model that new ones start from; None if they start from nothing.

    It is the model that `stream-apple merge` makes of this one file: nominated monomials are parents in it.

    provenance  that of `config`, which has the file's digest

    ConfigurationError if the file can't be read, is damaged, is not the one in `provenance`, has a model of other
    options, or one that can't be adopted.
    """
    if not config.worker.from_model:
        return None
    path = Path(config.worker.from_model)
    options = config.learner.options(config.limits.max_features_per_example)
    try:
        check_startable(options)
        learner = opened_model(_content(path, provenance), path, options).model.learner
    except ValueError as error:
        raise ConfigurationError(
            f"{_SETTING}: expected a model of the [learner] that is configured, found another in {path}: {error}"
        ) from error
    except (ConfigurationError, SnapshotError) as error:
        raise ConfigurationError(f"{_SETTING}: {error}") from error
    return merging_of(options).start_of(learner)


def _content(path: Path, provenance: Provenance) -> bytes:
    """Return the file's content; ConfigurationError if its digest is not the one in the models' settings."""
    content = read_model_bytes(path)
    expected, found = provenance.settings[STARTED_FROM], started_from(hashlib.sha256(content).hexdigest())
    if found != expected:
        raise ConfigurationError(f"expected {path} to stay as it was, {expected}, found {found}")
    return content


def check_starting_model(config: Config) -> Iterator[Finding]:
    """Yield a finding about the file; nothing if models start from none."""
    try:
        start = starting_model(config, Provenance.of(config))
    except ConfigurationError as error:
        yield Finding("fault", _SETTING, str(error).removeprefix(f"{_SETTING}: "))
        return
    if start is not None:
        yield Finding("ok", _SETTING, f"new models start from the one in {config.worker.from_model}")
