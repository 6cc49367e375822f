"""The one way in which this package compiles a function.

Numba's on-disk cache is keyed on the file of the compiled function alone: it does not see an edit in another
file. So a kernel calls only kernels of its own file, and takes arrays, never a named tuple of another file.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., object])


def kernel(function: _F) -> _F:
    """Compile at the first call, with NumPy's division (no exceptions) and without the interpreter lock.

    No fast-math: the same input must give the same bits after every crash and on every machine of a CPU type.
    """
    return cast("_F", numba.njit(cache=True, error_model="numpy", nogil=True)(function))


def inlined(function: _F) -> _F:
    """Like `kernel`, for small functions that are to be compiled into their callers."""
    return cast("_F", numba.njit(cache=True, error_model="numpy", nogil=True, inline="always")(function))
