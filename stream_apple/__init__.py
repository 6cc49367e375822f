"""Online learning with adaptive polynomial expansion: exactly once on Kafka, and as a library in Python.

What is public is in `__all__`, and in `stream_apple.river`. All of it is imported when it is first used, so that no
command, and nobody who imports the package, pays for what they do not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_apple.library.estimators import AppleClassifier, AppleRegressor
    from stream_apple.library.models import LearnedModel, load_model

__all__ = ["AppleClassifier", "AppleRegressor", "LearnedModel", "load_model"]

_HOMES = {
    "AppleClassifier": "stream_apple.library.estimators",
    "AppleRegressor": "stream_apple.library.estimators",
    "LearnedModel": "stream_apple.library.models",
    "load_model": "stream_apple.library.models",
}
_OPTIONAL = {"narwhals", "scipy", "sklearn"}


def __getattr__(name: str) -> object:
    """Import what is public when it is first asked for; ImportError says which extra has what is not installed."""
    if name not in _HOMES:
        raise AttributeError(f"module 'stream_apple' has no attribute {name!r}: expected one of {', '.join(__all__)}")
    try:
        found: object = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OPTIONAL:
            raise
        raise ImportError(
            f"stream_apple.{name}: expected {error.name} to be installed: pip install 'stream-apple[library]'"
        ) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
