"""Threads that are none: calls are made at once, or when a random generator pleases; like a pool, but repeatable."""

import random
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any


class OwnThread:
    """No other thread: a call is made where it is submitted."""

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Make the call."""
        future: Future[Any] = Future()
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001  it is raised where the result is asked for
            future.set_exception(error)
        return future

    def wait(self, futures: Collection[Future[Any]], timeout_s: float | None) -> None:
        """All are done."""

    def close(self) -> None:
        """There is nothing to end."""


class LateThreads(OwnThread):
    """A call is made at once, in the middle, or when it is waited for; `eager` is the share of those made at once."""

    def __init__(self, draw: random.Random, eager: float) -> None:
        self._draw = draw
        self._eager = eager
        self._late: dict[Future[Any], Callable[[], Any]] = {}

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Some other calls may be made as well."""
        future: Future[Any] = Future()
        self._late[future] = call
        self._make(self._eager)
        return future

    def wait(self, futures: Collection[Future[Any]], timeout_s: float | None) -> None:
        """Time may pass with nothing done, unless it is unlimited."""
        self._make(self._eager)
        if timeout_s is None and not any(future.done() for future in futures):
            self._call(self._draw.choice(list(futures)))

    def _make(self, share: float) -> None:
        for future in [future for future in self._late if self._draw.random() < share]:
            self._call(future)

    def _call(self, future: Future[Any]) -> None:
        call = self._late.pop(future)
        done = super().submit(call)
        error = done.exception()
        if error is None:
            future.set_result(done.result())
        else:
            future.set_exception(error)
