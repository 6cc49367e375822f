"""Progress of a command that takes long, without a terminal for a bar: a line on stderr now and then."""

import time
from collections.abc import Callable

from stream_apple.cli.output import say

SAID_EVERY_S = 10.0


class PlainLines:
    """Prints lines of progress, at least SAID_EVERY_S apart."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._started = self._said = now()
        self._phase = ""

    def show(self, text: str, done: float, total: float, *, phase: str = "", due: bool = False) -> None:
        """Print a line if one is due, with the time that is left at the pace so far.

        done, total  amounts of work in any unit
        phase        of the work: a line is due when another one begins, and the pace is that of one phase
        due          whether the line must be printed in any case
        """
        now = self._now()
        if phase != self._phase:
            self._phase, self._started, due = phase, now, True
        if not due and now - self._said < SAID_EVERY_S:
            return
        self._said = now
        left = ""
        if 0 < done < total:
            seconds = (now - self._started) * (total - done) / done
            left = f", about {seconds / 60:.0f} min" if seconds > 90 else f", about {seconds:.0f} s"
        say(f"{text}{left}", err=True)
