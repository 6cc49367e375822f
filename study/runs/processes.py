"""Processes that run tasks in parallel, and end when the study does, however it ends."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TypeVar

from stream_apple.errors import StreamAppleError

Given = TypeVar("Given")
Done = TypeVar("Done")


def run_all(
    function: Callable[[Given], Done], given: Sequence[Given], processes: int
) -> Generator[tuple[Given, Done], None, None]:
    """Call `function` with each of `given`, in so many processes; yield each with its result when it is done.

    When the caller stops, by an exception or by closing the iterator, running tasks are killed. An exception of a task
    is raised here. StreamAppleError if a process ended by itself.
    """
    if not given:
        return
    with _pool(min(processes, len(given))) as pool:
        try:
            # Not `concurrent.futures.wait`: a signal that interrupts it leaves locks of tasks taken, and the pool waits
            # for them for ever.
            done = SimpleQueue[Future[Done]]()
            waiting = {pool.submit(function, each): each for each in given}
            for future in waiting:
                future.add_done_callback(done.put)
            for _ in given:
                future = done.get()
                yield waiting[future], future.result()
        except BrokenProcessPool:
            raise StreamAppleError(
                "expected the processes of the study to live, found that one has ended: out of memory? "
                "Finished runs are kept; go on with fewer processes (--jobs)"
            ) from None


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    others = set(multiprocessing.active_children())
    # Spawned: a fork would copy the threads' locks of numba and rich.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_become_worker)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            _kill(child.pid)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _kill(leader: int | None) -> None:
    """Kill a process and what it has started; or the process alone, if it has not come to lead a group yet."""
    if leader is None:
        return
    with suppress(ProcessLookupError):
        os.kill(leader, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _become_worker() -> None:
    """Begin a session of this process's own, as Ctrl-C is for the study alone, which then ends this process."""
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the study to end, then kill this process and all that it has started."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)
