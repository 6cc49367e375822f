"""A configuration in a file, and what is said of a wrong one."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from stream_apple.config import load
from stream_apple.config.validation_errors import SECTIONS, keys_of_section
from stream_apple.errors import ConfigurationError

KEYS = [(section, key) for section in SECTIONS for key in keys_of_section(section)]
"""Section and name of every setting but Kafka's properties."""


def written(directory: Path, text: str) -> Path:
    """The text as a configuration file."""
    path = directory / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def faults_of(path: Path | None, environ: Mapping[str, str]) -> list[str]:
    """The lines of the refusal, one for each fault."""
    with pytest.raises(ConfigurationError) as caught:
        load(path, environ)
    assert caught.value.exit_code == 78
    head, _, rest = str(caught.value).partition(": " if " a fault: " in str(caught.value) else ":\n  ")
    assert head.startswith("the configuration has ")
    return rest.split("\n  ")
