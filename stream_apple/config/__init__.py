"""What the operator decides: a TOML file, the environment on top of it, checked once before anything starts.

    sections.py   the settings, their defaults and their bounds
    kafka.py      which librdkafka properties pass through, and which are refused with a reason
    duration.py   "250ms", "5m", "1h30m"
    secrets.py    which values are secrets, and that none is shown
    sources.py    TOML, environment and `file:` values, each remembered with its origin
    faults.py     from a refused value to one line: expected, found, where
    loading.py    the four together

Nothing outside this package reads the environment.
"""

from stream_apple.config.loading import load
from stream_apple.config.secrets import conceal
from stream_apple.config.sections import (
    Config,
    EpochSettings,
    HttpSettings,
    LearnerSettings,
    LimitSettings,
    TopicSettings,
    WorkerSettings,
)

__all__ = [
    "Config",
    "EpochSettings",
    "HttpSettings",
    "LearnerSettings",
    "LimitSettings",
    "TopicSettings",
    "WorkerSettings",
    "conceal",
    "load",
]
