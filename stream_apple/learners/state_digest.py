"""The digest of a learner's state, 32 hex digits over every bit that future scores and sums depend on."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray


class RowsDigest:
    """The digest, computed in steps, on whose sizes it does not depend: first the rows, in order, then the rest."""

    def __init__(self) -> None:
        self._columns: dict[str, xxhash.xxh3_128] = {}

    def add(self, rows: Mapping[str, NDArray[Any]], start: int, stop: int) -> None:
        """Add rows [start, stop) of these arrays, which follow those that were added before."""
        for name, array in rows.items():
            column = self._columns.setdefault(name, xxhash.xxh3_128())
            column.update(np.ascontiguousarray(array[start:stop]).view(np.uint8).data)

    def finish(self, sums: Mapping[str, NDArray[np.generic]]) -> str:
        """Add all other state, and return the 32 hex digits."""
        whole = xxhash.xxh3_128()
        for name, column in self._columns.items():
            whole.update(f"{name} ".encode() + column.digest())
        for name, array in sums.items():
            whole.update(
                f"{name} ".encode() + xxhash.xxh3_128(np.ascontiguousarray(array).view(np.uint8).data).digest()
            )
        return whole.hexdigest()


def state_digest(rows: Mapping[str, NDArray[Any]], sums: Mapping[str, NDArray[np.generic]]) -> str:
    """Return the digest of a whole state."""
    digest = RowsDigest()
    digest.add(rows, 0, len(next(iter(rows.values()))))
    return digest.finish(sums)
