"""The one instruction that Numba has no function for: a prefetch, which lets memory fetch while the processor goes on.

It is emitted as LLVM code because the rest waits for memory without it: with `mixture = false`, a whole example of the
planted benchmark takes 1.5 to 1.6 times as long, and 1.1 times as long with the default settings (2^18 slots, AMD EPYC;
`python tests/bench/learning.py`, with a `prefetch` that does nothing in place of this one).
"""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from stream_apple.core.jit import PART_OPTIONS

_BYTE, _FLAG, _WORD = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)
_FOR_READING, _KEEP, _DATA = _FLAG(0), _FLAG(3), _FLAG(1)  # the flags of LLVM's instruction


def prefetch(array: Any, index: Any) -> None:  # noqa: ANN401  an array of one dimension, a whole number
    """Ask the processor for the cache line of array[index], without waiting for it; it may lie beyond the array.

    Interpreted, it does nothing.
    """


@overload(prefetch, jit_options=cast("Any", PART_OPTIONS))
def _compiled_prefetch(array: Any, index: Any) -> Callable[..., None]:  # noqa: ANN401, ARG001  types of Numba
    def call(array: Any, index: Any) -> None:  # noqa: ANN401
        _emit_prefetch(array, index)  # type: ignore[call-arg]  # Numba fills in the first one

    return call


@intrinsic
def _emit_prefetch(_context: object, array: Any, _index: object) -> tuple[object, object]:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> object:  # noqa: ANN401
        view, index = context.make_array(signature.args[0])(context, builder, values[0]), values[1]
        offset = builder.mul(index, builder.extract_value(view.strides, 0))
        address = builder.gep(builder.bitcast(view.data, _BYTE), [offset])
        form = ir.FunctionType(ir.VoidType(), [_BYTE, _FLAG, _FLAG, _FLAG])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [_BYTE], form)
        builder.call(instruction, [address, _FOR_READING, _KEEP, _DATA])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate
