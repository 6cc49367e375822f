"""Loading of the configuration from all sources: the environment wins over the file, the file over the defaults."""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from stream_apple.config import sources, validation_errors
from stream_apple.config.schema import Config
from stream_apple.config.secrets import remember
from stream_apple.errors import ConfigurationError
from stream_apple.untrusted import UnreadableFileError


def load(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """Return the checked configuration; ConfigurationError lists every fault with expected, found and where."""
    settings = {} if path is None else sources.from_toml(path)
    overrides, unknown = sources.from_environment(environ)
    found = [validation_errors.unknown_variable(name) for name in unknown]
    outside = settings.pop(sources.OUTSIDE, {})
    found += [validation_errors.outside_of_sections(key, setting) for key, setting in outside.items()]
    for section, entries in settings.items():
        # Refused even if a variable overrides it: the file may be copied, committed and mounted all the same.
        for key in [key for key, setting in entries.items() if sources.is_secret_in_file(section, key, setting)]:
            remember(key, entries[key].value)
            found.append(validation_errors.secret_in_file(section, key, entries.pop(key)))
    for section, entries in overrides.items():
        settings.setdefault(section, {}).update(entries)
    values: dict[str, dict[str, object]] = {}
    for section, entries in settings.items():
        values[section] = {}
        for key, setting in entries.items():
            try:
                entries[key] = sources.resolve(setting)
            except UnreadableFileError as error:
                found.append(f"{section}.{key} ({setting.origin}): {error}")
            else:
                values[section][key] = entries[key].value
                remember(key, entries[key].value)
    return _validated(sources.nested(values), settings, found)


def config_of(sections: Mapping[str, Mapping[str, object]], place: str) -> Config:
    """Return the checked configuration of the settings at `place`, without other sources; or ConfigurationError."""
    settings: sources.Settings = {}
    for section, entries in sections.items():
        settings |= sources.flat(section, entries, f"in {place}")
    return _validated({section: dict(entries) for section, entries in sections.items()}, settings, [])


def _validated(values: Mapping[str, dict[str, object]], settings: sources.Settings, found: list[str]) -> Config:
    """Return the configuration of these values; ConfigurationError with the faults found before, and its own."""
    config = None
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        found += [validation_errors.describe(detail, settings) for detail in error.errors(include_context=False)]
    if found or config is None:
        count = "a fault" if len(found) == 1 else f"{len(found)} faults"
        separator = ": " if len(found) == 1 else ":\n  "
        # The cause is left out: pydantic's own text repeats every value, passwords too.
        raise ConfigurationError(f"the configuration has {count}{separator}" + "\n  ".join(found)) from None
    return config
