"""Signals, for all commands alike: the first asks the process to finish, the second ends it where it stands."""

import signal
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Self, TypeVar

Item = TypeVar("Item")

STOPPING = (signal.SIGTERM, signal.SIGINT)


def _leave_it() -> None:
    """Do nothing: whoever asks `stopping` will finish."""


def _tell_nobody(first: signal.Signals) -> None:
    """Do nothing: nobody wants to know which one it is."""


class Signals:
    """Catches these signals while its context lasts.

    The first one is remembered, `tell` is told which one it is, and `finish` is called. From then on each has its
    default action again, which the kernel sees to: a call that blocks can't hold up the second.

    received  the first one that has come
    """

    def __init__(
        self,
        finish: Callable[[], None] = _leave_it,
        tell: Callable[[signal.Signals], None] = _tell_nobody,
        caught: Iterable[signal.Signals] = STOPPING,
    ) -> None:
        self.received: signal.Signals | None = None
        self._finish = finish
        self._tell = tell
        self._caught = tuple(caught)
        self._reading = False

    def call(self, finish: Callable[[], None]) -> None:
        """From now on, the first signal calls `finish`, which may raise, and otherwise must not block."""
        self._finish = finish

    def stopping(self) -> bool:
        """Whether the first signal has come."""
        return self.received is not None

    @property
    def exit_code(self) -> int:
        """The exit code of a process that the first signal has ended, as shells report it; 0 if none has come."""
        return 0 if self.received is None else 128 + self.received

    def until_first(self, items: Iterator[Item]) -> Iterator[Item]:
        """The items up to the first signal, even if it comes while the next one is waited for (a silent pipe)."""
        try:
            while True:
                # In this order: a signal either finds us reading, or is found here.
                self._reading = True
                if self.received is not None:
                    return
                try:
                    item = next(items)
                except StopIteration:
                    return
                finally:
                    self._reading = False
                yield item
        except _InterruptedReadError:
            return

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._first) for number in self._caught}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _first(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        for each in self._caught:
            signal.signal(each, signal.SIG_DFL)
        self._tell(self.received)
        self._finish()
        if self._reading:
            self._reading = False
            raise _InterruptedReadError


class _InterruptedReadError(BaseException):
    """A signal has come while an item was read. Nobody but `until_first` may catch it."""
