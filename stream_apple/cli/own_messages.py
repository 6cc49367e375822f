"""Commands that send messages of the product's own, and the workers that would not read them."""

from stream_apple.config import Config
from stream_apple.errors import ConfigurationError


def check_own_messages(config: Config, instead: str) -> None:
    """Raise ConfigurationError if workers of this configuration read records of another shape: `[input]` says which.

    instead  what to do about it
    """
    if config.input.mapping() is not None:
        raise ConfigurationError(
            "expected no section `input`: what is sent here are messages of the product's own, which a worker with "
            f"such a mapping does not read; {instead}"
        )
