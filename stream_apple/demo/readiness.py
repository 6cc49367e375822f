"""Waits until a process listens and is ready, and tells what it is waiting for."""

import time
from collections.abc import Callable
from contextlib import suppress

from stream_apple.demo.child import Child
from stream_apple.demo.scrape import Scraper
from stream_apple.errors import BrokerError

_STARTING_S = 0.1
_READY_S = 180.0

_IN_OTHER_WORDS = {
    "kernels to compile": "{who} compiles its kernels (half a minute on its first run, then never again)",
    "the group to assign partitions": "{who} joins its consumer group (3 s)",
}


def listening(child: Child) -> Scraper:
    """Return a scraper of the process, once it listens; ChildEndedError or BrokerError if it never does."""
    deadline = time.monotonic() + _READY_S
    while (port := child.port()) is None:
        _go_on(child, deadline, "listen")
    return Scraper(port)


def wait_until_ready(child: Child, scraper: Scraper, tell: Callable[[str], None], who: str) -> None:
    """Return when the process is ready; ChildEndedError or BrokerError if it never is.

    tell  shows what is being waited for, of `who`
    """
    deadline = time.monotonic() + _READY_S
    reasons = [""]
    while reasons:
        with suppress(OSError):  # too busy to answer, or about to end
            reasons = scraper.waiting_for()
        if reasons:
            if reasons[0] in _IN_OTHER_WORDS:
                tell(_IN_OTHER_WORDS[reasons[0]].format(who=who))
            _go_on(child, deadline, f"be ready, and not to wait for {reasons[0] or 'an answer'}")


def _go_on(child: Child, deadline: float, end: str) -> None:
    child.check()
    if time.monotonic() > deadline:
        raise BrokerError(f"expected `stream-apple {child.command}` to {end} within {_READY_S:g} s")
    time.sleep(_STARTING_S)
