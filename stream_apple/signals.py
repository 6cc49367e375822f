"""Signals, for all commands alike: the first asks the process to finish, the second ends it where it stands."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self, TypeVar

Item = TypeVar("Item")

STOPPING = (signal.SIGTERM, signal.SIGINT)

_NUDGE = signal.SIGURG
"""Sent to the main thread to end a call that blocks; it means nothing, and is ignored by default."""
_NUDGE_S = 0.05
_NUDGES = 100


@contextmanager
def noting_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether a SIGINT has raised KeyboardInterrupt inside this context.

    Libraries may make another exception of it, as pydantic does while a model's schema is built. Where SIGINT is
    ignored, or caught by others, it stays so.
    """
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        signal.default_int_handler(number, frame)

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Signals:
    """Catches these signals while its context lasts.

    The first one is remembered, `tell` is told which one it is, and `finish` is called; by default neither does
    anything, as whoever asks `stopping` will finish. From then on each has its default action again, which the kernel
    sees to: a call that blocks can't hold up the second.

    received  the first one that has come
    """

    def __init__(
        self,
        finish: Callable[[], None] = lambda: None,
        tell: Callable[[signal.Signals], None] = lambda _first: None,
        caught: Iterable[signal.Signals] = STOPPING,
    ) -> None:
        self.received: signal.Signals | None = None
        self._finish = finish
        self._tell = tell
        self._caught = tuple(caught)
        self._reading = False
        self._waking = _Waking(self.stopping)

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
        self._waking.begin()
        self._previous = {number: signal.signal(number, self._first) for number in self._caught}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._waking.end()

    def _first(self, number: int, _frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        for each in self._caught:
            signal.signal(each, signal.SIG_DFL)
        self._tell(self.received)
        self._finish()
        if self._reading:
            self._reading = False
            raise _InterruptedReadError


class _Waking:
    """Sees to it that a signal is handled at once, whatever the main thread does.

    The interpreter handles a signal between two instructions of the main thread. One that comes just before a call that
    blocks, or to another thread, doesn't interrupt that call, and would wait until it returns: for a silent pipe or a
    terminal, for ever. So a thread of its own hears of each signal, and interrupts the main thread until it is handled.

    handled  whether the signal has been handled
    """

    def __init__(self, handled: Callable[[], bool]) -> None:
        self._handled = handled

    def begin(self) -> None:
        """Listen from now on; to be called in the main thread."""
        self._hears, self._told = os.pipe()
        os.set_blocking(self._told, False)
        self._previous_nudge = signal.signal(_NUDGE, lambda *_: None)
        self._previous_told = signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, args=[threading.get_ident()], name="signals", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Give the signals back to their former handlers."""
        signal.set_wakeup_fd(self._previous_told)
        os.close(self._told)
        self._thread.join()
        os.close(self._hears)
        signal.signal(_NUDGE, self._previous_nudge)

    def _listen(self, main_thread: int) -> None:
        while numbers := os.read(self._hears, 1):
            if numbers[0] == _NUDGE:
                continue
            for _ in range(_NUDGES):
                if self._handled():
                    break
                signal.pthread_kill(main_thread, _NUDGE)
                time.sleep(_NUDGE_S)


class _InterruptedReadError(BaseException):
    """A signal has come while an item was read. Nobody but `until_first` may catch it."""
