"""The error of a command whose libraries are in an extra that is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from stream_apple.errors import ConfigurationError


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Let the extra's libraries be imported in this context; ConfigurationError if one is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"expected {error.name} to be installed, found none: pip install 'stream-apple[{extra}]'"
        ) from error
