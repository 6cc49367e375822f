"""What the operator decides: a TOML file, the environment on top of it, checked once before anything starts.

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
