"""Threads that work on models; the loop's thread takes the results of their calls."""

import os
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_QUOTA_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


class Threads(Protocol):
    """Runs calls on other threads; only one thread may use this."""

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Have the call made when a thread is free; the future gets its result or its error."""

    def wait(self, futures: Collection[Future[Any]], timeout_s: float | None) -> None:
        """Wait until one of the futures, of which there is at least one, is done; at most so long."""

    def close(self) -> None:
        """Wait for calls that are being made, and end the threads."""


class ThreadPool:
    """Runs calls on a fixed number of threads."""

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, "models")

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Have the next free thread make the call."""
        return self._executor.submit(call)

    def wait(self, futures: Collection[Future[Any]], timeout_s: float | None) -> None:
        """Wait for one of the futures; signal handlers run meanwhile."""
        wait(futures, timeout_s, FIRST_COMPLETED)

    def close(self) -> None:
        """Drop calls that no thread has begun with, wait for the others, and end the threads."""
        self._executor.shutdown(cancel_futures=True)


def usable_cores() -> int:
    """Return how many cores this process may use: those it is bound to, but not more than its cgroup's quota."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return bound if quota is None else max(min(bound, round(quota)), 1)


def _cgroup_quota() -> float | None:
    """Return the cgroup's quota of time, in cores (Linux; cgroup v2, else v1); None if it is not limited."""
    try:
        if _QUOTA.exists():
            quota, period = _QUOTA.read_text().split()
        else:
            quota, period = (path.read_text().strip() for path in _QUOTA_V1)
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError):  # no cgroup, or "max"
        return None
