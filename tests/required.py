"""What a test does when this machine lacks something that it needs."""

import os
from typing import NoReturn

import pytest


def in_ci() -> bool:
    """Whether this is the place where nothing may be left unproved."""
    return os.environ.get("CI", "").lower() == "true"


def unavailable(reason: str) -> NoReturn:
    """Skip, or fail in CI: a skip that nobody reads would let the promises go unproved where they are to be proved."""
    if in_ci():
        pytest.fail(reason)
    pytest.skip(reason)
