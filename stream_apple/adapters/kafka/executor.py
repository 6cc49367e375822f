"""Makes calls that may block on a thread of their own, so that the caller can stop waiting for them.

A Python signal handler runs only when the main thread is back in Python. Most calls of librdkafka end at the timeout
they are given, but not all: `send_offsets_to_transaction` may take the whole `transaction.timeout.ms` when its
broker dies at the wrong moment. So another thread makes such calls, and the main thread waits in Python.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

_POLL_S = 0.2  # how often the waiting caller checks whether its time is up

_T = TypeVar("_T")


class AbandonedError(Exception):
    """The caller's time was up while the call was still blocked."""


class AbandonableExecutor:
    """Has one thread make one call at a time.

    keep  an object that the calls use; the thread refers to it, so that it is not destroyed during a blocked call

    A call that blocks for ever does not keep the process from ending, as the thread is a daemon.
    """

    def __init__(self, name: str, keep: object) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._latest: Future[Any] | None = None
        self._thread = threading.Thread(target=_serve, args=(self._calls, keep), name=name, daemon=True)
        self._thread.start()

    @property
    def blocked(self) -> bool:
        """Whether the latest call has not returned yet."""
        return self._latest is not None and not self._latest.done()

    def submit(self, call: Callable[[], _T]) -> "Future[_T]":
        """Start `call` on the thread; AbandonedError if the call before it has not returned yet."""
        if self.blocked:
            raise AbandonedError
        future: Future[_T] = Future()
        self._latest = future
        self._calls.put((future, call))
        return future

    def run(self, call: Callable[[], _T], is_expired: Callable[[], bool]) -> _T:
        """Return or raise what `call` does; AbandonedError once `is_expired()`, or if an earlier call still blocks."""
        return self.wait(self.submit(call), is_expired)

    def wait(self, future: "Future[_T]", is_expired: Callable[[], bool]) -> _T:
        """Return or raise what a submitted call does; AbandonedError if it still blocks once `is_expired()`."""
        while True:
            try:
                return future.result(_POLL_S)
            except TimeoutError:
                if is_expired() and not future.done():
                    raise AbandonedError from None

    def close(self, last: Callable[[], object] | None = None) -> None:
        """End the thread once the call that it is in has returned, and after that `last`."""
        if last is not None:
            self._calls.put((Future(), last))
        self._calls.put(None)


def _serve(calls: "SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]", keep: object) -> None:
    while (task := calls.get()) is not None:
        future, call = task
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  raised again where the call was submitted
            future.set_exception(error)
        del task, future, call
    del keep
