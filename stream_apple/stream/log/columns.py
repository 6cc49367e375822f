"""The fields of many records as columns: one pass for each field, in which the interpreter executes no line of Python.

All records of a call are of one type, as those of one client are: its methods are looked up once.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.stream.log.ports import Record


def offsets_of(records: Sequence[Record]) -> NDArray[np.int64]:
    """Return the offsets of n records, as int64[n]."""
    return np.fromiter(_each("offset", records), np.int64, len(records))


def timestamps_of(records: Sequence[Record]) -> NDArray[np.int64]:
    """Return int64[n], milliseconds since 1970; not above 0 where a record has no timestamp."""
    return np.fromiter(map(itemgetter(1), _each("timestamp", records)), np.int64, len(records))


def values_of(records: Sequence[Record]) -> list[bytes | None]:
    """Return the values of n records, in their order."""
    return list(_each("value", records))


def keys_of(records: Sequence[Record]) -> list[bytes | None]:
    """Return the keys of n records, in their order."""
    return list(_each("key", records))


def bytes_of(records: Sequence[Record]) -> int:
    """Return the sum of the sizes of the records' values."""
    return sum(map(len, filter(None, _each("value", records))))


def portion(records: Sequence[Record], most_bytes: int) -> int:
    """How many of the first records have values of at most so many bytes together: one at least, if there is one."""
    sizes = np.fromiter((0 if value is None else len(value) for value in _each("value", records)), np.int64)
    return max(int(np.searchsorted(np.cumsum(sizes), most_bytes, "right")), min(len(records), 1))


def runs_by_partition(records: Sequence[Record]) -> Iterator[tuple[int, Iterator[Record]]]:
    """Partition and records of each run of records of one partition."""
    return groupby(records, type(records[0]).partition) if records else iter(())


def _each(method: str, records: Sequence[Record]) -> Iterator[Any]:
    return map(getattr(type(records[0]), method), records) if records else iter(())
