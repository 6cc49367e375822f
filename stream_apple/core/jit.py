"""How functions are compiled: by Numba's public API, with the options and the cache directory that all of them share.

Numba's cache on disk checks the source file of the compiled function only. After an edit in a file that this function
calls, or in the definition of a named tuple, Numba would load stale machine code. So the cache is a directory that is
named by a digest of all sources of kernels: after an edit of any of them, all are compiled again.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import event
from numba.extending import register_jitable

from stream_apple.core.compile_notice import compiling_begins
from stream_apple.errors import ConfigurationError

_HERE = Path(__file__).parent
_SOURCES = (_HERE, _HERE.parent / "learners", _HERE.parent / "records" / "message")
"""What kernels are made of."""
_config: Any = numba.config
_F = TypeVar("_F", bound=Callable[..., object])

# No fast-math: the same input must give the same bits after every crash and on every machine of a CPU type.
# `_nrt` is the one option that Numba does not document. Without its runtime, no references to arrays are counted, and a
# kernel that allocates does not compile. With it, an example of the planted benchmark takes 1.4 times as long with the
# default settings, and 1.2 times with the method linear (`python tests/bench/learning.py`).
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
_ROUTINE_OPTIONS = _OPTIONS | {"no_cfunc_wrapper": True}
PART_OPTIONS = _ROUTINE_OPTIONS | {"forceinline": True}
"""The options of a `part`."""


def _cache_directory() -> Path:
    """Return the directory of compiled code, which is named by a digest of the sources.

    It is below NUMBA_CACHE_DIR if that is set; else beside this module if that is writable; else in the user's cache.
    """
    digest = hashlib.sha256()
    for source in sorted(each for folder in _SOURCES for each in folder.rglob("*.py")):
        digest.update(source.read_bytes())
    parent = _HERE / "__pycache__"
    if _config.CACHE_DIR:  # NUMBA_CACHE_DIR
        parent = Path(_config.CACHE_DIR)
    elif not os.access(_HERE, os.W_OK):
        with suppress(RuntimeError):  # the user has no home
            parent = Path.home() / ".cache" / "stream_apple"
    return parent / f"kernels-{digest.hexdigest()[:16]}"


CACHE = _cache_directory()
"""Where compiled code is kept."""

_TRIAL = """
import sys
from llvmlite import binding
binding.initialize_all_targets()
binding.initialize_all_asmprinters()
machine = binding.Target.from_default_triple().create_target_machine(cpu=sys.argv[1])
machine.emit_object(binding.parse_assembly("define void @f() { ret void }"))
"""


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


if _config.CPU_NAME:
    check_processor(_config.CPU_NAME, "NUMBA_CPU_NAME: ")


def aim_at(target: str) -> None:
    """Compile for this type of processor, with no more than the type promises; called before any kernel is imported.

    A process loads what was compiled so if NUMBA_CPU_NAME is the same, and NUMBA_CPU_FEATURES is set and empty.
    Raises ConfigurationError as `check_processor` does.
    """
    check_processor(target)
    _config.CPU_NAME, _config.CPU_FEATURES = target, ""


class _CompileListener(event.Listener):
    """Passes on that Numba begins to compile a function, which it does not when it loads one from the cache."""

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002  Numba's signature
        compiling_begins()

    def on_end(self, event: event.Event) -> None:
        """Ignore the end of a compilation."""


event.register("numba:compile", _CompileListener())


@contextmanager
def _own_cache() -> Iterator[None]:
    """Let Numba keep in CACHE what is decorated here, and nowhere else; other packages' functions stay where they are.

    Numba reads these settings when a function is decorated, not when it is compiled.
    """
    before = _config.CACHE_DIR, _config.CACHE_LOCATOR_CLASSES
    _config.CACHE_DIR, _config.CACHE_LOCATOR_CLASSES = str(CACHE), "UserProvidedCacheLocator"
    try:
        yield
    finally:
        _config.CACHE_DIR, _config.CACHE_LOCATOR_CLASSES = before


def kernel(function: _F) -> _F:
    """Compile a function that Python calls, at the first call, with NumPy's division, without the interpreter lock.

    Raises ConfigurationError if CACHE cannot be written to.
    """
    with _own_cache():
        try:
            return cast("_F", numba.njit(cache=True, **_OPTIONS)(function))
        except RuntimeError as error:  # Numba has found no place for compiled code
            raise ConfigurationError(
                f"expected a directory where this user may keep compiled kernels, found {CACHE}; let "
                f"NUMBA_CACHE_DIR name one"
            ) from error


def routine(function: _F) -> _F:
    """Let kernels call a function, which is compiled with them; Python that calls it runs it uncompiled."""
    found: _F = register_jitable(**_ROUTINE_OPTIONS)(function)
    return found


def part(function: _F) -> _F:
    """Mark a routine as inlined wherever it is called, so that passing tuples of arrays costs nothing."""
    found: _F = register_jitable(**PART_OPTIONS)(function)
    return found


@contextmanager
def room_for_kernels() -> Iterator[None]:
    """Raise ConfigurationError instead of the OSError with which a kernel's first call finds CACHE full."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"expected room for compiled kernels in {CACHE}, found: {error.strerror}; NUMBA_CACHE_DIR names another "
            f"directory"
        ) from error


def _marker_path(what: str) -> Path:
    described = (what, numba.__version__, sys.version, _config.CPU_NAME, _config.CPU_FEATURES)
    name = hashlib.sha256("\0".join(map(str, described)).encode()).hexdigest()[:16]
    return CACHE / f"complete-{name}"


def is_complete(what: str) -> bool:
    """Return whether any process has called `note_complete` for `what`: this processor's code is in the cache."""
    return _marker_path(what).exists()


def note_complete(what: str) -> None:
    """Note in the cache that every kernel that `what` needs is there."""
    with suppress(OSError):
        _marker_path(what).touch()


@part
def copy_numbers(source: Any, first: Any, target: Any, to: Any, count: Any) -> None:  # noqa: ANN401
    """Copy source[first:first + count] to target[to:to + count], arrays of one type that do not overlap."""
    first, to = np.uint64(first), np.uint64(to)
    for i in range(np.uint64(count)):
        target[to + i] = source[first + i]
