"""Who is told that this process compiles: code that the cache does not have takes up to a minute.

This module imports nothing, so that a command can register before it imports kernels.
"""

from collections.abc import Callable

_waiting: list[Callable[[], None]] = []


def tell_of_compiling(tell: Callable[[], None]) -> None:
    """Have `tell` called once, before anything is compiled, in place of what was given here before."""
    _waiting[:] = [tell]


def compiling_begins() -> None:
    """Call what `tell_of_compiling` was given, unless it was called already."""
    while _waiting:
        _waiting.pop()()
