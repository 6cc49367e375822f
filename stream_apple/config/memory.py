"""Estimates of the memory that models and records take, and the limit of the process, before any of them is made.

Start-up imports this module, so nothing here may import numpy or numba.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from stream_apple.config.schema import LimitSettings
from stream_apple.errors import ConfigurationError

if TYPE_CHECKING:
    from stream_apple.learners.port import LearnerOptions  # which needs numpy

PROCESS_BYTES = 200_000_000
"""Python, its libraries and the kernels."""
MOST_BYTES = 16 << 20
"""The most bytes of records that are on their way through models: as many as Kafka's client keeps for us."""
BATCH_BYTES = 2 << 20
"""The most bytes of records that a thread learns at once, unless a single record is larger: thousands of usual ones."""

# Each byte of a batch is joined, becomes one and a half of msgpack, and may be one of an id, of which three copies are
# made while answers are put together. A feature may have two bytes, and becomes twelve; more with other columns, and
# where it stands for several.
_LEARNED, _LEAST_FEATURE = 6, 2
_FEATURE, _COLUMN, _NGRAM = 12, 8, 24
_CONTRIBUTION = 5 / 8
"""Share of a model that the leader of a merge holds of each: its snapshot, of half a table, and a decoded block."""
_AROUND_BYTES = 65_536  # a record's key and headers, and its batch

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")
_MACHINE = Path("/proc/meminfo")
_KIB = 1024
_MIB = 1 << 20


class MemoryLimit(NamedTuple):
    """A limit on the bytes that this process may use, and its origin."""

    bytes: int
    origin: str


class Queues(NamedTuple):
    """The most bytes that Kafka's clients keep in their queues, by their properties.

    fetched  of records fetched ahead of the worker; when there are as many, no more are asked for
    answer   of one answer of a broker
    brokers  how many brokers may be asked at once
    sent     of messages that wait to be delivered
    read     of a snapshot, fetched ahead of the code that restores a model
    """

    fetched: int = 16 << 20
    answer: int = 2 << 20
    brokers: int = 4
    sent: int = 32 << 20
    read: int = 48 << 20


def queue_bytes(options: "LearnerOptions", limits: LimitSettings, threads: int, queues: Queues) -> int:
    """Return the most bytes that records take between the brokers and the models, and answers on their way back.

    If producers compress, the client keeps answers uncompressed, which may be many times as much.
    """
    # A record that is larger than `answer` comes in an answer of its own.
    ahead = queues.fetched + queues.brokers * max(queues.answer, limits.max_record_bytes + _AROUND_BYTES)
    longest = options.longest_ngram
    feature = _FEATURE + _COLUMN * len(options.wanted_columns()) + (_NGRAM * longest if longest > 1 else 0)
    learned = _LEARNED * max(BATCH_BYTES, limits.max_record_bytes)
    learned += feature * max(BATCH_BYTES // _LEAST_FEATURE, limits.max_features)
    on_their_way = MOST_BYTES + ahead  # while there is still room, all that was fetched may come at once
    return ahead + on_their_way + threads * learned + queues.sent + queues.read


def worker_bytes(options: "LearnerOptions", partitions: int, queued: int, merged: int = 0) -> int:
    """Return the bytes of a worker that owns so many partitions, and one more model, the copy for a snapshot.

    queued  as of `queue_bytes`
    merged  how many models are merged: the owner of partition 0 holds them all, compressed, and what they become
    """
    models = partitions + 1 + (2 + merged * _CONTRIBUTION if merged else 0)
    return PROCESS_BYTES + queued + int(models * options.model_bytes())


def check_models_fit(options: "LearnerOptions", models: int, limit: MemoryLimit | None = None) -> None:
    """Raise ConfigurationError if so many models do not fit into the memory, even if nothing else is in it.

    limit  None: the limit of this process
    """
    found = memory_limit() if limit is None else limit
    needed = models * options.model_bytes()
    if found is not None and needed > found.bytes:
        raise ConfigurationError(too_large(options, needed, found))


def too_large(options: "LearnerOptions", needed: int, limit: MemoryLimit, queued: int = 0) -> str:
    """Return the message for options whose models, and `queued` bytes of records, need more memory than there is."""
    records = f", {-(-queued // _MIB):,} of it records (limits.max_record_bytes, worker.threads)" if queued else ""
    return (
        f"learner.bits, limits.max_features_per_example: expected models that fit into {limit.bytes // _MIB:,} MiB, "
        f"the {limit.origin}, found {options.bits} and {options.max_features_per_example:,}: "
        f"they take {-(-needed // _MIB):,} MiB{records}"
    )


def memory_limit() -> MemoryLimit | None:
    """Return the tightest limit of this process (Linux); None if none is known."""
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
    """Yield the files with the limits of this process's cgroup and those around it: v2, then v1, as in a container."""
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
