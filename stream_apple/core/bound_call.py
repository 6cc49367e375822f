"""A kernel with its arguments laid out beforehand, so that each call costs next to nothing.

When Python calls a kernel, Numba finds the type of each argument and unpacks each array: for a model, which has some
sixty arrays, that takes twenty microseconds, and learning a short example takes two. Here both are done once. The same
machine code is called with the same arguments, so results are equal, to the bit.

The calling convention is Numba's own (`numba.core.callconv`): a place for the result, one for an error, then all
arguments with arrays and tuples taken apart. A piece of code that reads them from memory, and calls the kernel at its
address, is made for each kernel.
"""

import ctypes
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import types

_FAILED = -(1 << 63)
_OK, _NONE = 0, -2  # the status that a kernel returns beside its result; kernels never raise
_WORD = ir.IntType(64)
_made: dict[int, tuple[Callable[[int], int], object]] = {}  # by the kernel's address, with what keeps the code alive


class BoundCall:
    """A kernel and its arguments; `call()` calls it, and returns its result if that is a number, else 0.

    Arrays are taken by reference: changes of their contents count for the next call. An array must not be replaced by
    another one.
    """

    def __init__(self, kernel: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._arguments = arguments  # keeps the arrays
        self.call: Callable[[], int] = lambda: int(kernel(*arguments) or 0)
        if not hasattr(kernel, "overloads"):  # nothing is compiled: it is a function of Python
            return
        signature: tuple[Any, ...] = tuple(numba.typeof(argument) for argument in arguments)
        words = [
            word for kind, argument in zip(signature, arguments, strict=True) for word in _words_of(kind, argument)
        ]
        self._words = np.array(words, np.int64)
        compiled: Any = kernel
        if signature not in compiled.overloads:
            compiled.compile(signature)
        function = _reader_of(compiled, compiled.overloads[signature])
        place = self._words.ctypes.data

        def call() -> int:
            result = function(place)
            if result == _FAILED:
                raise RuntimeError(f"{compiled.py_func.__qualname__}: expected a result, found an error")
            return result

        self.call = call


def _words_of(kind: Any, value: Any) -> Iterator[int]:  # noqa: ANN401  types of Numba, and any argument
    """Yield an argument's words in the order of Numba's calling convention; TypeError for a kind that no kernel has."""
    if isinstance(kind, types.Array):
        yield from (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
    elif isinstance(kind, types.BaseTuple):
        members: Any = kind
        for each, item in zip(members, value, strict=True):
            yield from _words_of(each, item)
    elif isinstance(kind, types.NoneType):
        yield 0
    elif isinstance(kind, types.Integer | types.Boolean):
        word = int(value)
        yield word - (1 << 64) if word >= 1 << 63 else word
    elif isinstance(kind, types.Float) and kind.bitwidth == 64:
        yield struct.unpack("<q", struct.pack("<d", value))[0]
    elif isinstance(kind, types.Float):
        yield struct.unpack("<i", struct.pack("<f", value))[0]
    else:
        raise TypeError(f"expected arrays, numbers, tuples and None as arguments of a kernel, found {kind}")


def _reader_of(kernel: Any, compiled: Any) -> Callable[[int], int]:  # noqa: ANN401
    """Return a function that takes the address of a kernel's words, and calls it."""
    described = compiled.fndesc
    address = compiled.library.get_pointer_to_function(described.llvm_func_name)
    if address in _made:
        return _made[address][0]
    context = kernel.targetctx
    kernel_type = context.call_conv.get_function_type(described.restype, described.argtypes)
    module = ir.Module("bound_call")
    module.triple = binding.get_process_triple()
    reader = ir.Function(module, ir.FunctionType(_WORD, [_WORD.as_pointer()]), "read_and_call")
    builder = ir.IRBuilder(reader.append_basic_block())
    result_type, error_type, *argument_types = kernel_type.args
    result = builder.alloca(result_type.pointee)
    error = builder.alloca(error_type.pointee)
    arguments = [
        _as(builder, builder.load(builder.gep(reader.args[0], [ir.Constant(_WORD, number)])), kind)
        for number, kind in enumerate(argument_types)
    ]
    callee = builder.inttoptr(ir.Constant(_WORD, address), kernel_type.as_pointer())
    status = builder.call(callee, [result, error, *arguments])
    fine = builder.or_(*(builder.icmp_signed("==", status, ir.Constant(status.type, code)) for code in (_OK, _NONE)))
    number = ir.Constant(_WORD, 0)
    if isinstance(result_type.pointee, ir.IntType):
        loaded = builder.load(result)
        number = loaded if result_type.pointee.width == 64 else builder.sext(loaded, _WORD)
    builder.ret(builder.select(fine, number, ir.Constant(_WORD, _FAILED)))
    engine = _compiled(module)
    code = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(engine.get_function_address("read_and_call"))
    # Another thread may have made the same code meanwhile. One of both is kept, for the memory of the other is freed.
    return _made.setdefault(address, (code, (engine, compiled)))[0]


def _as(builder: Any, word: Any, kind: Any) -> Any:  # noqa: ANN401  values and types of LLVM
    """Return a word as an argument of another type of LLVM."""
    if isinstance(kind, ir.PointerType):
        return builder.inttoptr(word, kind)
    if isinstance(kind, ir.DoubleType):
        return builder.bitcast(word, kind)
    if isinstance(kind, ir.FloatType):
        return builder.bitcast(builder.trunc(word, ir.IntType(32)), kind)
    return word if kind.width == 64 else builder.trunc(word, kind)


def _compiled(module: Any) -> Any:  # noqa: ANN401  of LLVM
    """Return an engine that has the machine code of a module; it has to live as long as the code is used."""
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return engine
