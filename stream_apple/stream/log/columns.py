"""The fields of many records as columns: one pass for each field, in which the interpreter executes no line of Python.

All records of a call must be of one type, as those of one client are, because its methods are looked up once.
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
    """Return the timestamps as int64[n], milliseconds since 1970; 0 or less for a record without one."""
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
    """Return how many of the first records have at most `most_bytes` of values together; at least 1 if there is one."""
    sizes = np.fromiter((0 if value is None else len(value) for value in _each("value", records)), np.int64)
    return max(int(np.searchsorted(np.cumsum(sizes), most_bytes, "right")), min(len(records), 1))


def runs_by_partition(records: Sequence[Record]) -> Iterator[tuple[int, Iterator[Record]]]:
    """Yield the partition and the records of each run of records of one partition."""
    return groupby(records, type(records[0]).partition) if records else iter(())


def _each(method: str, records: Sequence[Record]) -> Iterator[Any]:
    return map(getattr(type(records[0]), method), records) if records else iter(())
