"""The one way in which this package compiles a function.

Numba's on-disk cache checks the compiled function's own file only: after an edit in a file that it calls, or in a
named tuple's definition, stale machine code would be used silently. So the cache lives in a directory named after
the sources of the whole package: any edit compiles anew.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import numba
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import AnnotateTypes
from numba.extending import intrinsic
from numba.misc.appdirs import user_cache_dir

from stream_apple.core.compile_notice import compiling_begins
from stream_apple.errors import ConfigurationError

_HERE = Path(__file__).parent
_SOURCES = (_HERE, _HERE.parent / "learners", _HERE.parent / "records" / "message")
"""What kernels are made of."""


def _cache_directory() -> Path:
    """Return the directory of compiled code, which is named by a digest over the sources.

    It is in NUMBA_CACHE_DIR if that is set, else beside the sources if they are writable, else in the user's cache, and
    if that can't be written either, beside the sources, where somebody may have compiled all beforehand.
    """
    digest = hashlib.sha256()
    for source in sorted(each for folder in _SOURCES for each in folder.rglob("*.py")):
        digest.update(source.read_bytes())
    chosen = getattr(numba.config, "CACHE_DIR", "")  # what NUMBA_CACHE_DIR says
    if chosen:
        parent = Path(chosen)
    else:
        own = Path(str(user_cache_dir("stream_apple")))  # begins with "~" where nobody knows the user's home
        takes_own = not os.access(_HERE, os.W_OK) and own.is_absolute() and _is_writable(own)
        parent = own if takes_own else _HERE / "__pycache__"
    return parent / f"kernels-{digest.hexdigest()[:16]}"


def _is_writable(path: Path) -> bool:
    """Return whether this user may write in the directory, or make it."""
    return os.access(next(each for each in (path, *path.parents) if each.exists()), os.W_OK)


_TRIAL = """
import sys
from llvmlite import binding
binding.initialize_all_targets()
binding.initialize_all_asmprinters()
machine = binding.Target.from_default_triple().create_target_machine(cpu=sys.argv[1])
machine.emit_object(binding.parse_assembly("define void @f() { ret void }"))
"""


CACHE = _cache_directory()
"""Where compiled code is kept. Numba's own setting stays as it is: it is for the other packages of the process, too."""


def check_processor(name: str, where: str = "") -> None:
    """Raise ConfigurationError for a type of processor that LLVM does not know, or that is none of this architecture.

    where  the beginning of its message
    """
    known = CACHE / f"processor-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    if known.exists():
        return
    # LLVM complains of a name on standard error, and then compiles for another type or ends the process.
    tried = subprocess.run([sys.executable, "-c", _TRIAL, name], capture_output=True, check=False)  # noqa: S603  ours
    if tried.returncode or b"not a recognized processor" in tried.stderr or not name:
        raise ConfigurationError(
            f"{where}expected a type of processor that LLVM knows, such as x86-64-v3, found {name!r}"
        )
    with suppress(OSError):
        CACHE.mkdir(parents=True, exist_ok=True)
        known.touch()


if numba.config.CPU_NAME:  # type: ignore[attr-defined]  # what NUMBA_CPU_NAME says
    check_processor(numba.config.CPU_NAME, "NUMBA_CPU_NAME: ")  # type: ignore[attr-defined]


def aim_at(target: str) -> None:
    """Compile for this type of processor, with no more than the type promises; called before any kernel is imported.

    A process loads what was compiled so if NUMBA_CPU_NAME is the same, and NUMBA_CPU_FEATURES is set and empty.
    ConfigurationError as of `check_processor`.
    """
    check_processor(target)
    numba.config.CPU_NAME = target  # type: ignore[attr-defined]  # made by Numba at import
    numba.config.CPU_FEATURES = ""  # type: ignore[attr-defined]


_F = TypeVar("_F", bound=Callable[..., object])


def _marker_path(what: str) -> Path:
    config: Any = numba.config
    processor = config.CPU_NAME or binding.get_host_cpu_name()
    described = (what, numba.__version__, sys.version, processor, config.CPU_FEATURES)
    name = hashlib.sha256("\0".join(map(str, described)).encode()).hexdigest()[:16]
    return CACHE / f"complete-{name}"


def is_complete(what: str) -> bool:
    """Return whether any process has called `note_complete` for `what`: this processor's code is in the cache."""
    return _marker_path(what).exists()


def note_complete(what: str) -> None:
    """Note in the cache, if it can be written to, that every kernel that `what` needs is there."""
    if not _Cache.failures:
        with suppress(OSError):
            _marker_path(what).touch()


def check_kept() -> None:
    """Raise ConfigurationError if code that this process has compiled could not be kept in the cache."""
    for error in _Cache.failures[:1]:
        raise ConfigurationError(f"expected room for compiled kernels in {CACHE}, found: {error.strerror}") from error


# No fast-math: the same input must give the same bits after every crash and on every machine of a CPU type. Without
# `_nrt`, Numba's runtime, no references to arrays are counted, which would cost as much as learning a short example; a
# kernel can't allocate then, and fails to compile if it does.
_OPTIONS: dict[str, Any] = {"nopython": True, "error_model": "numpy", "nogil": True, "_nrt": False}


class _Locator:
    """Says where the compiled code of one function is kept: below CACHE, in a folder named as that of its source."""

    def __init__(self, function: Callable[..., object]) -> None:
        code = function.__code__
        source = Path(code.co_filename)
        inside = any(source.is_relative_to(folder) for folder in _SOURCES)
        folder = source.parent.relative_to(_HERE.parent).parts if inside else (source.parent.name,)
        self._path = CACHE / ".".join(folder)
        self._py_file = str(source)  # Numba warns by this name of code that can't be kept, as with NUMBA_OPT=0
        self._line = code.co_firstlineno
        # That of the package is in the name of CACHE; tests have kernels elsewhere.
        self._stamp = b"" if inside else hashlib.sha256(source.read_bytes()).digest()

    @classmethod
    def from_function(cls, function: Callable[..., object], source: str) -> "_Locator | None":
        """Return the locator of a function; None if its source is in no file, so that Numba asks its own locators.

        From a folder that can only be read, code is used, and none is kept. ConfigurationError if there is no folder
        and none can be made: Numba's own locators would use machine code that may be stale.
        """
        if not Path(source).exists():
            return None
        found = cls(function)
        try:
            found.ensure_cache_path()
        except OSError as error:
            if found._path.is_dir():
                return found
            raise ConfigurationError(
                f"expected a directory where this user may keep compiled kernels, found {CACHE}: {error.strerror}; let "
                f"NUMBA_CACHE_DIR name one"
            ) from error
        return found

    def ensure_cache_path(self) -> None:
        """Make the folder; OSError if nothing can be written there."""
        self._path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=self._path).close()

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(self._path)

    def get_source_stamp(self) -> bytes:
        """Return what changes with the source."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """Return what tells functions of one name in one file."""
        return str(self._line)


class _CacheImplementation(CompileResultCacheImpl):
    _locator_classes = [cast("Any", _Locator), *CompileResultCacheImpl._locator_classes]  # noqa: RUF012, SLF001


class _Cache(FunctionCache):
    """Numba's cache, in a place of our own.

    To load code, it does not first import and register all that compiling would need.
    """

    _impl_class = _CacheImplementation
    failures: ClassVar[list[OSError]] = []
    """Why compiled code could not be kept."""

    def load_overload(self, sig: object, target_context: object) -> object:
        """Return the compiled function, or None; Numba then makes itself ready, and compiles."""
        # The base does the same after `target_context.refresh()`: 0.1 s of a start in which nothing is compiled.
        found: object = cast("Any", self)._load_overload(sig, target_context)  # noqa: SLF001  the base's
        if found is None:
            compiling_begins()
        return found

    def save_overload(self, sig: object, data: object) -> None:
        """Keep the compiled function; if the disk is full it is used all the same, and `check_kept` says so."""
        try:
            cast("Any", super()).save_overload(sig, data)
        except OSError as error:
            self.failures.append(error)


class Kernel(CPUDispatcher):
    """A function that is compiled for the types of its arguments, where Numba would compile a constant argument anew.

    While Numba infers the type of a variable that starts as 0, calls with it are calls with the constant 0 at first; so
    nearly everything that a loop calls would be compiled twice.
    """

    def get_call_template(self, args: Any, kws: Any) -> Any:  # noqa: ANN401  Numba's signature
        """Return the base's template, for the types of constants in place of the constants."""
        plain = tuple(types.unliteral(each) for each in args)
        return super().get_call_template(plain, {name: types.unliteral(each) for name, each in kws.items()})

    def enable_caching(self) -> None:
        """Keep compiled code in the cache on disk."""
        self._cache = cast("Any", _Cache)(self.py_func)


class _LinkedLibrary(JITCodeLibrary):
    """The LLVM code of a routine, which is optimised and made machine code with the kernels that link it."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)  # noqa: SLF001
        self._finalized = True


@register_pass(mutates_CFG=False, analysis_only=True)
class _LinkOnly(AnalysisPass):
    """A pass that puts what is compiled into a library that is only linked."""

    _name = "link_only"

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Numba has no types

    def run_pass(self, state: Any) -> bool:  # noqa: ANN401
        state.library = cast("Any", _LinkedLibrary)(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        return False


class _RoutineCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_LinkOnly, AnnotateTypes)
        passes.finalize()
        return [passes]


class _Routine(Kernel):
    """A kernel without machine code of its own, so that Python can't call it."""

    def add_overload(self, cres: Any) -> None:  # noqa: ANN401
        # Numba finds what to link by the entry point, of which there is none.
        found = cres._replace(entry_point=object())
        self.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
        self.overloads[tuple(found.signature.args)] = found

    def _compile_for_args(self, *_args: object, **_kws: object) -> None:
        raise TypeError(f"{self.py_func.__qualname__}: expected a kernel to call it, found Python")


def kernel(function: _F) -> _F:
    """Compile a function that Python calls, at the first call, with NumPy's division, without the interpreter lock."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    made = Kernel(function, targetoptions=_OPTIONS)
    made.enable_caching()
    return cast("_F", made)


def routine(function: _F) -> _F:
    """Compile a function that only kernels call, each of which contains the code of all that it calls."""
    return _linked(function, forceinline=False)


def part(function: _F) -> _F:
    """Compile a routine that is inlined wherever it is called, so that passing tuples of arrays costs nothing."""
    return _linked(function, forceinline=True)


def _linked(function: _F, *, forceinline: bool) -> _F:
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    options = _OPTIONS | {"forceinline": forceinline, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast("_F", _Routine(function, targetoptions=options, pipeline_class=_RoutineCompiler))


Operand: TypeAlias = Any
"""A value of LLVM; or an array, as a struct with its `data` and `shape`; or a named tuple of these."""


def instruction(interpreted: _F, result: types.Type = types.void) -> Callable[[Callable[..., Operand]], _F]:
    """Make a function of one that emits LLVM code, `emit(builder, *arguments)`.

    interpreted  does the same where nothing is compiled
    result       the type of what is returned

    All whole numbers among the arguments come as 64 bits.
    """

    def choose(emit: Callable[..., Operand]) -> _F:
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return interpreted

        @wraps(emit)  # Numba looks at the parameters, of which it leaves out the first
        def typed(_context: object, *kinds: Any) -> tuple[object, object]:  # noqa: ANN401  types of Numba
            def generate(context: Any, builder: Operand, signed: Any, values: Operand) -> Operand:  # noqa: ANN401
                opened = (_opened(context, builder, *each) for each in zip(signed.args, values, strict=True))
                found = emit(builder, *opened)
                return context.get_dummy_value() if found is None else found

            return result(*(types.uint64 if isinstance(kind, types.Integer) else kind for kind in kinds)), generate

        return cast("_F", intrinsic(typed))

    return choose


def _opened(context: Any, builder: Operand, kind: Any, value: Operand) -> Operand:  # noqa: ANN401  of Numba
    """Return an argument as `instruction` hands it to code that emits."""
    if isinstance(kind, types.Array):
        return context.make_array(kind)(context, builder, value)
    if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        fields = (builder.extract_value(value, at) for at in range(len(kind.fields)))
        return kind.instance_class(*(_opened(context, builder, *each) for each in zip(kind.types, fields, strict=True)))
    return value


def _same_condition(condition: bool) -> bool:  # noqa: FBT001
    """Return the condition: interpreted code has no branch prediction to be told of."""
    return condition


@instruction(_same_condition, types.boolean)
def unlikely(b: Operand, condition: Operand) -> Operand:
    """Return the condition, and tell LLVM that it hardly ever holds, so that its branch does not slow down the rest."""
    flag = ir.IntType(1)
    expect = cgutils.get_or_insert_function(b.module, ir.FunctionType(flag, [flag, flag]), "llvm.expect.i1")
    return b.call(expect, [condition, flag(0)])


def no_prefetch(*_arguments: object) -> None:
    """Do nothing: interpreted code gains nothing by a prefetch."""


def emit_prefetch(b: Operand, address: Operand) -> None:
    """Ask for the cache line of an address, without waiting for it; it may be nobody's."""
    byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    prototype = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
    function = cgutils.get_or_insert_function(b.module, prototype, "llvm.prefetch.p0i8")
    for_reading, keep, data = flag(0), flag(3), flag(1)
    b.call(function, [b.bitcast(address, byte), for_reading, keep, data])


@instruction(no_prefetch)
def prefetch(b: Operand, array: Operand, index: Operand) -> None:
    """Ask the processor for the cache line of array[index], without waiting for it; it may lie beyond the array."""
    stride = cgutils.unpack_tuple(b, array.strides, 1)[0]
    emit_prefetch(b, b.gep(b.bitcast(array.data, ir.IntType(8).as_pointer()), [b.mul(index, stride)]))


def _copy_by_slices(source: Any, first: Any, target: Any, to: Any, count: Any) -> None:  # noqa: ANN401
    """Do what `copy_numbers` does, for interpreted code."""
    target[int(to) : int(to) + int(count)] = source[int(first) : int(first) + int(count)]


@instruction(_copy_by_slices)
def copy_numbers(b: Operand, source: Operand, first: Operand, target: Operand, to: Operand, count: Operand) -> None:
    """Copy source[first:first + count] to target[to:to + count], arrays of one type, as bytes; they don't overlap.

    A loop would copy one by one, since the compiler can't tell that they don't.
    """
    start, end = b.gep(source.data, [first]), b.gep(target.data, [to])
    cgutils.raw_memcpy(b, end, start, count, cgutils.sizeof(b, start.type))
