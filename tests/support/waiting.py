"""Waiting for something that others bring about: the one loop that polls, with a deadline and a message."""

import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_S = 120.0
"""Generous: it is only waited for when something is wrong."""
_PAUSE_S = 0.02

_Found = TypeVar("_Found")


def wait_until(
    done: Callable[[], _Found],
    what: str | Callable[[], object],
    seconds: float = DEADLINE_S,
    pause_s: float = _PAUSE_S,
    meanwhile: Callable[[], object] | None = None,
) -> _Found:
    """Call `done` until it returns something true, which is returned; AssertionError if that takes too long.

    what       what is waited for, in words; or a function that says what is still wrong, called at the deadline only
    meanwhile  what to do between two calls, in place of a pause: a client to be polled, say
    """
    deadline = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what() if callable(what) else what}"
        if meanwhile is None:
            time.sleep(pause_s)
        else:
            meanwhile()
    return found
