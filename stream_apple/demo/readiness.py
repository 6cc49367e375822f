"""Waits until a process listens and is ready, and tells what it is waiting for."""

import time
from contextlib import suppress
from typing import Protocol

from stream_apple.demo.child import Child
from stream_apple.demo.scrape import Scraper
from stream_apple.errors import BrokerError

_STARTING_S = 0.1
_READY_S = 180.0

_IN_OTHER_WORDS = {
    "kernels to compile": "{who} compiles its kernels (half a minute on its first run, then never again)",
    "the group to assign partitions": "{who} joins its consumer group (3 s)",
}


class Teller(Protocol):
    """Shows what is being waited for, and the process's address once that is known."""

    def __call__(self, *, doing: str = ..., address: str = ...) -> None:
        """Show these texts; what is left out stays as it was."""


def wait_until_listening(child: Child) -> int:
    """Return the port of the process, once it has one; ChildEndedError or BrokerError if it never has."""
    deadline = time.monotonic() + _READY_S
    while (port := child.port()) is None:
        _go_on(child, deadline, "listen")
    return port


def wait_until_ready(child: Child, partition: int, tell: Teller, who: str = "the worker") -> Scraper:
    """Return a scraper of the process, once it is ready; ChildEndedError or BrokerError if it never is."""
    scraper = Scraper(wait_until_listening(child), partition)
    tell(address=scraper.address)
    deadline = time.monotonic() + _READY_S
    reasons = [""]
    while True:
        with suppress(OSError):  # too busy to answer, or about to end
            reasons = scraper.waiting_for()
        if not reasons:
            return scraper
        if reasons[0] in _IN_OTHER_WORDS:
            tell(doing=_IN_OTHER_WORDS[reasons[0]].format(who=who))
        _go_on(child, deadline, f"be ready, and not to wait for {reasons[0] or 'an answer'}")


def _go_on(child: Child, deadline: float, end: str) -> None:
    child.check()
    if time.monotonic() > deadline:
        raise BrokerError(f"expected `stream-apple {child.command}` to {end} within {_READY_S:g} s")
    time.sleep(_STARTING_S)
