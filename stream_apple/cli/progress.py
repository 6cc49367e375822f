"""How far a command is that takes long, where there is no terminal for a bar: a line on standard error now and then."""

import time
from collections.abc import Callable

from stream_apple.cli.output import say

SAID_EVERY_S = 10.0


class PlainLines:
    """Lines of one phase after the other, SAID_EVERY_S apart."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._started = self._said = now()

    def begin(self) -> None:
        """A phase begins, whose first line is due at once."""
        self._started = self._now()
        self._said = self._started - SAID_EVERY_S

    def show(self, text: str, done: float, total: float, *, due: bool = False) -> None:
        """Say it, with the time that the rest takes by the pace so far, if a line is due."""
        now = self._now()
        if not due and now - self._said < SAID_EVERY_S:
            return
        self._said = now
        left = ""
        if 0 < done < total:
            seconds = (now - self._started) * (total - done) / done
            left = f", about {seconds / 60:.0f} min" if seconds > 90 else f", about {seconds:.0f} s"
        say(f"{text}{left}", err=True)
