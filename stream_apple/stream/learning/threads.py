"""Threads for work on models: any number of calls at once, whose results the loop's thread comes for."""

import os
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_QUOTA_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


class Threads(Protocol):
    """Runs calls on other threads; one thread alone may use this."""

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Have the call made, some time; its result or its error will be the future's."""
        ...

    def wait(self, futures: Collection[Future[Any]], timeout_s: float | None) -> None:
        """Wait until one of the futures, which are not empty, is done; at most so long."""
        ...

    def close(self) -> None:
        """Wait for calls that are being made, and end."""
        ...


class ThreadPool:
    """Runs calls on a fixed number of threads."""

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, "models")

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """The next thread that is free makes the call."""
        return self._executor.submit(call)

    def wait(self, futures: Collection[Future[Any]], timeout_s: float | None) -> None:
        """Wait for one of the futures; signal handlers run meanwhile."""
        wait(futures, timeout_s, FIRST_COMPLETED)

    def close(self) -> None:
        """Calls that no thread has begun with are dropped."""
        self._executor.shutdown(cancel_futures=True)


def usable_cores() -> int:
    """Cores that this process may use: those it is bound to, and no more than its cgroup's quota pays for."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return bound if quota is None else max(min(bound, round(quota)), 1)


def _cgroup_quota() -> float | None:
    """Cores' worth of time that the cgroup may use (Linux; cgroup v2, else v1); None if it is not limited."""
    try:
        if _QUOTA.exists():
            quota, period = _QUOTA.read_text().split()
        else:
            quota, period = (path.read_text().strip() for path in _QUOTA_V1)
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError):  # no cgroup, or "max"
        return None
