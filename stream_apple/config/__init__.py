"""What the operator decides: a TOML file, the environment on top of it, checked once before anything starts.

    schema.py              the settings, their defaults and bounds
    input_settings.py      the section `input`: which fields of a record are what
    learner_settings.py    the section `learner`, made of the declarations in core/learner/options
    section.py             the base class of sections
    passed_through.py      which properties of clients pass through, and which are refused with a reason
    duration.py            "250ms", "5m", "1h30m"
    secrets.py             which values are secrets, and how they are hidden
    sources.py             TOML, environment and `file:` values, each remembered with its origin
    validation_errors.py   from a refused value to one line: expected, found, where
    memory.py              whether the configured models fit into the process's memory
    loading.py             from the sources to the checked configuration
    reference.py           the page `docs/configuration.md`, made from the settings

Nothing outside this package reads the environment.
"""

from stream_apple.config.learner_settings import LearnerSettings
from stream_apple.config.loading import config_of, load
from stream_apple.config.schema import (
    Config,
    EpochSettings,
    HttpSettings,
    JoinSettings,
    LimitSettings,
    OutputSettings,
    TopicSettings,
)
from stream_apple.config.secrets import conceal

__all__ = [
    "Config",
    "EpochSettings",
    "HttpSettings",
    "JoinSettings",
    "LearnerSettings",
    "LimitSettings",
    "OutputSettings",
    "TopicSettings",
    "conceal",
    "config_of",
    "load",
]
