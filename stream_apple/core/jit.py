"""The one way in which this package compiles a function.

Numba's on-disk cache checks the compiled function's own file only: after an edit in a file that it calls, or in a
named tuple's definition, stale machine code would be used in silence. So the cache lives in a directory named after
the sources of the whole package: any edit compiles anew.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.misc.appdirs import user_cache_dir

_SOURCES = Path(__file__).parent


def _cache_directory() -> Path:
    """Below NUMBA_CACHE_DIR if that is set, else beside the sources if they are writable, else the user's own."""
    digest = hashlib.sha256()
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(source.read_bytes())
    chosen = getattr(numba.config, "CACHE_DIR", "")  # what NUMBA_CACHE_DIR says
    if chosen:
        parent = Path(chosen)
    elif os.access(_SOURCES, os.W_OK):
        parent = _SOURCES / "__pycache__"
    else:
        parent = Path(str(user_cache_dir("stream_apple")))
    return parent / f"kernels-{digest.hexdigest()[:16]}"


numba.config.CACHE_DIR = str(_cache_directory())  # type: ignore[attr-defined]  # made by Numba at import

_F = TypeVar("_F", bound=Callable[..., object])


def kernel(function: _F) -> _F:
    """Compile at the first call, with NumPy's division (no exceptions) and without the interpreter lock.

    No fast-math: the same input must give the same bits after every crash and on every machine of a CPU type.
    """
    return cast("_F", numba.njit(cache=True, error_model="numpy", nogil=True)(function))


def _prefetch(_context: object, array: types.Array, index: types.Integer) -> tuple[object, object]:
    """Lower `prefetch` to LLVM's instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, view.strides, 1)[0]
        word, byte, flag = ir.IntType(64), ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.add(builder.ptrtoint(view.data, word), builder.mul(arguments[1], stride))
        prototype = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, prototype, "llvm.prefetch.p0i8")
        for_writing, keep, data = flag(1), flag(3), flag(1)
        builder.call(function, [builder.inttoptr(address, byte), for_writing, keep, data])
        return context.get_dummy_value()

    return types.void(array, index), generate


def _wait_for_nothing(_array: object, _index: object) -> None:
    """Interpreted code has nothing to hurry."""


prefetch: Callable[[Any, Any], None] = (
    _wait_for_nothing if getattr(numba.config, "DISABLE_JIT", 0) else cast("Any", intrinsic(_prefetch))
)
"""prefetch(array, index): ask the processor for the cache line of array[index], without waiting for it."""
