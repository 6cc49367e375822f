"""SIGTERM and SIGINT: the first asks the worker to finish, the second ends the process where it stands."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Self

import structlog

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = structlog.get_logger()


class Signals:
    """Catches both from `with` on; before there is anything to finish, the first one ends the process with 0."""

    def __init__(self) -> None:
        self._finish: Callable[[], None] | None = None

    def call(self, finish: Callable[[], None]) -> None:
        """From now on, the first signal calls `finish`, which must not block."""
        self._finish = finish

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._first) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _first(self, number: int, _frame: FrameType | None) -> None:
        _log.info("stop_requested", signal=signal.Signals(number).name)
        # The second is as safe as a crash, and not to be held up by a call that blocks: the kernel sees to it.
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        if self._finish is None:
            raise SystemExit(0)
        self._finish()
