"""How much memory models take, and how much there is: known before the first of them is made.

Read by start-up: nothing here may import numpy or numba.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from stream_apple.core.learner.options import Options
from stream_apple.errors import ConfigurationError

PROCESS_BYTES = 200_000_000
"""Python, its libraries and the kernels."""
QUEUE_BYTES = 192 << 20
"""Fetched, being learned, to be sent, and what is ahead of a snapshot that is read."""

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")
_MACHINE = Path("/proc/meminfo")
_KIB = 1024
_MIB = 1 << 20


class MemoryLimit(NamedTuple):
    """Bytes that this process may use, and who says so."""

    bytes: int
    origin: str


def worker_bytes(options: Options, partitions: int, merged: int = 0) -> int:
    """What a worker takes that owns so many partitions; one model more is the copy that a snapshot is written of.

    merged  partitions whose models are merged: whoever owns partition 0 has all of them at once, and what comes of it
    """
    models = partitions + 1 + (merged + 2 if merged else 0)
    return PROCESS_BYTES + QUEUE_BYTES + models * options.model_bytes()


def check_models_fit(options: Options, models: int, limit: MemoryLimit | None = None) -> None:
    """ConfigurationError if so many models do not fit into the memory, whatever else is in it.

    limit  else that of this process
    """
    found = memory_limit() if limit is None else limit
    needed = models * options.model_bytes()
    if found is not None and needed > found.bytes:
        raise ConfigurationError(too_large(options, needed, found))


def too_large(options: Options, needed: int, limit: MemoryLimit) -> str:
    """The fault of options whose models need more than there is."""
    return (
        f"learner.bits, limits.max_features_per_example: expected models that fit into {limit.bytes // _MIB:,} MiB, "
        f"the {limit.origin}, found {options.bits} and {options.max_features_per_example:,}: "
        f"they take {-(-needed // _MIB):,} MiB"
    )


def memory_limit() -> MemoryLimit | None:
    """The tightest limit of this process (Linux); None if none is known."""
    return min(_limits(), default=None)


def _limits() -> Iterator[MemoryLimit]:
    for file in _cgroup_files():
        try:
            yield MemoryLimit(int(file.read_text()), f"limit of {file}")
        except (OSError, ValueError):  # not there, or "max"
            continue
    try:
        lines = dict(line.split(":") for line in _MACHINE.read_text().splitlines())
        kib = sum(int(lines[name].split()[0]) for name in ("MemTotal", "SwapTotal"))
        yield MemoryLimit(kib * _KIB, "memory of the machine")
    except (OSError, ValueError, KeyError):
        return


def _cgroup_files() -> Iterator[Path]:
    """Where the limits of this process's cgroup and of those around it are: v2, then v1, as a container sees them."""
    try:
        entries = [line.split(":", 2) for line in _OWN_CGROUP.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in entries:
        if controllers in {"", "memory"}:
            root = _CGROUPS / "memory" if controllers else _CGROUPS
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            own = PurePosixPath(path.lstrip("/"))
            for group in (own, *own.parents):
                yield root / group / name
