"""State as arrays by name, as snapshots hold it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

NamedArrays = Mapping[str, NDArray[np.generic]]


def check_kinds(own: NamedArrays, given: NamedArrays) -> None:
    """Raise ValueError if the given arrays have other names, types or dimensions; they may have other lengths."""
    if (found := sorted(given)) != sorted(own):
        raise ValueError(f"expected arrays {', '.join(sorted(own))}, found {', '.join(found)}")
    for name, array in own.items():
        new = given[name]
        if new.dtype != array.dtype or new.ndim != array.ndim:
            raise ValueError(
                f"{name}: expected {array.dtype} of {array.ndim} dimensions, found {new.dtype} of {new.ndim}"
            )


def take_over_arrays(own: NamedArrays, given: NamedArrays) -> None:
    """Copy the given arrays into `own`, which must have the same names, types and sizes; else ValueError."""
    check_kinds(own, given)
    for name, array in own.items():
        if (new := given[name]).shape != array.shape:
            raise ValueError(f"{name}: expected {array.dtype}[{array.size}], found {new.dtype}[{new.size}]")
        array[:] = new
