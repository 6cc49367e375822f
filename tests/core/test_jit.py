"""How functions are compiled: what Numba's private options promise, to be seen again with each of its versions."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from core.machine_code import counts_references, machine_code
from learners.apple.test_learner import batch_of, planted_rows, run
from numba.core.errors import NumbaWarning, TypingError
from numpy.typing import NDArray

from stream_apple.core import jit
from stream_apple.core.compile_notice import tell_of_compiling
from stream_apple.core.jit import CACHE, Kernel, copy_numbers, kernel, part, routine
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options


def test_the_versions_of_numba_that_this_is_known_to_hold_for() -> None:
    """`core/jit.py` uses names that are Numba's own: a new version is tried, then named here and in pyproject.toml."""
    assert numba.__version__.startswith("0.68.")
    assert '"numba>=0.68,<0.69"' in (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")


@part
def _half(number: float) -> float:
    """Half of it."""
    return number / 2.0


@routine
def _quarter(number: float) -> float:
    """A quarter of it."""
    return _half(_half(number))


@kernel
def _sum_of_quarters(count: int) -> float:
    """Of the numbers below `count`; and of 1, a constant."""
    total = _quarter(1)
    for number in range(count):
        total += _quarter(number)
    return total


@kernel
def _copy(source: NDArray[Any], first: int, target: NDArray[Any], to: int, count: int) -> None:
    """What kernels call can't be called from here."""
    copy_numbers(source, np.uint64(first), target, to, count)


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.uint64])
def test_numbers_are_copied_and_nothing_else(kind: type[np.generic]) -> None:
    """Of any type, from anywhere to anywhere, none of them too."""
    source = np.arange(100, 150).astype(kind)
    for first, to, count in ((0, 0, 50), (3, 7, 20), (49, 0, 1), (10, 30, 0)):
        target = np.full(50, 7, kind)
        _copy(source, first, target, to, count)
        expected = np.full(50, 7, kind)
        expected[to : to + count] = source[first : first + count]
        assert target.tolist() == expected.tolist()


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")  # type: ignore[attr-defined]
class TestRoutines:
    """Functions that only kernels call."""

    def test_kernels_have_their_code(self) -> None:
        """Inlined or not; a constant is a number of its type, for which nothing is compiled again."""
        cached: Any = _sum_of_quarters
        fresh = Kernel(cached.py_func, targetoptions=cached.targetoptions)
        assert fresh(5) == 0.25 + 2.5
        compiled: list[Any] = [fresh, _quarter]
        assert [len(each.overloads) for each in compiled] == [1, 1]

    @pytest.mark.parametrize("function", [_half, _quarter])
    def test_python_can_not_call_them(self, function: Callable[[float], float]) -> None:
        """Neither before nor after they were compiled: they have no machine code of their own."""
        for _ in range(2):
            with pytest.raises(TypeError, match="expected a kernel to call it, found Python"):
                function(1.0)
            _sum_of_quarters(1)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")  # type: ignore[attr-defined]
def test_who_waits_is_told_that_something_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Once, before it is; and not where the cache has it."""
    monkeypatch.setattr(jit, "CACHE", tmp_path)
    cached: Any = _sum_of_quarters
    told = []
    for _ in range(2):
        tell_of_compiling(lambda: told.append("compiling"))
        fresh = Kernel(cached.py_func, targetoptions=cached.targetoptions)
        fresh.enable_caching()
        for argument in (5, np.uint8(5)):  # each type has code of its own
            fresh(argument)
    assert told == ["compiling"]


def test_no_reference_is_counted() -> None:
    """In the machine code of any kernel, whatever processor it is for: it costs as much as learning a short example."""
    run(Learner(Options(bits=8)), batch_of(planted_rows(1, seed=1)), 1)
    kernels = machine_code(CACHE)
    assert any(name.startswith("process.process-") for name in kernels)
    assert [name for name, code in kernels.items() if counts_references(code)] == []


def test_counting_is_seen_in_machine_code(tmp_path: Path) -> None:
    """Of what Numba compiles by itself, which the test above would find among the kernels."""
    (tmp_path / "counting.py").write_text(
        "import numba\n@numba.njit(cache=True)\ndef first(arrays):\n    return arrays[0]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import numpy, counting; counting.first((numpy.ones(1), numpy.ones(2)))"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(counts_references(code) for code in machine_code(tmp_path / "cache").values())


def test_a_kernel_that_allocates_does_not_compile() -> None:
    """So that none that counts references comes in unseen."""

    @kernel
    def allocate() -> int:
        return len(np.empty(1))

    with pytest.raises(TypingError, match="empty"):
        allocate()


def _compiled_functions() -> Iterator[tuple[Path, ast.FunctionDef, str]]:
    """Yield each function of the package that is compiled, with its module and its decorator."""
    for path in sorted((Path(__file__).parents[2] / "stream_apple").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for each in node.decorator_list:
                    if isinstance(each, ast.Name) and each.id in {"kernel", "routine", "part"}:
                        yield path, node, each.id


def test_no_kernel_calls_another() -> None:
    """What compiled code calls is a routine.

    Of a kernel that both call, Python's call finds the code that was compiled for the other's types, and only the next
    process, which loads the other from the cache, compiles its own: while it works.
    """
    compiled = list(_compiled_functions())
    kernels = {(path, node.name) for path, node, kind in compiled if kind == "kernel"}
    public = {name for _, name in kernels if not name.startswith("_")}
    found = {
        f"{path.name}: {node.name} calls {call.func.id}"
        for path, node, _ in compiled
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id in public or (path, call.func.id) in kernels
    }
    assert found == set()


_LEARNING = """
import numpy as np
from stream_apple.core import jit
from stream_apple.core.compile_notice import tell_of_compiling
@jit.kernel
def add(one, other):
    return one + other
"""


def _with_cache(cache: Path, source: str, folder: Path, setup: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the source behind a kernel, in a process that keeps kernels in `cache`, and in which `setup` runs first."""
    (folder / "kernels_of_a_test.py").write_text(_LEARNING + source)
    (folder / "setup_of_a_test.py").write_text(setup)
    return subprocess.run(
        [sys.executable, "-c", "import setup_of_a_test, kernels_of_a_test"],
        env={**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_cache_that_can_not_be_there_is_named(tmp_path: Path) -> None:
    """No traceback of Numba's, and none of its own caches, which would not see that what a kernel calls has changed."""
    (tmp_path / "file").touch()
    done = _with_cache(tmp_path / "file", "", tmp_path)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    expected = "stream_apple.errors.ConfigurationError: expected a directory where this user may keep compiled kernels"
    assert last.startswith(f"{expected}, found {tmp_path / 'file' / 'kernels-'}")
    assert last.endswith("; let NUMBA_CACHE_DIR name one")


LARGE = np.full(1 << 20, 7.0)  # by its address, which is another in the next process


@kernel
def _last_of_large() -> float:
    """What no cache can keep."""
    return float(LARGE[-1])


def test_numba_says_what_can_not_be_cached() -> None:
    """It is used, too; with NUMBA_OPT=0 no code is kept that other code is linked into."""
    with pytest.warns(NumbaWarning, match='Cannot cache compiled function "_last_of_large"') as found:
        assert _last_of_large() == 7.0
    assert [each.filename for each in found] == [__file__]


def test_what_can_not_be_kept_is_used_all_the_same(tmp_path: Path) -> None:
    """A disk that is full when code is written ends nobody; nobody is told either that all is in the cache."""
    done = _with_cache(
        tmp_path / "cache",
        "from errno import ENOSPC\n"
        "from numba.core.caching import IndexDataCacheFile\n"
        "def full(*_):\n"
        "    raise OSError(ENOSPC, 'No space left on device')\n"
        "IndexDataCacheFile.save = full\n"
        "jit.note_complete('nothing')\n"
        "assert jit.is_complete('nothing')\n"
        "jit.check_kept()\n"
        "assert add(1, 2) == 3\n"
        "jit.note_complete('all')\n"
        "assert not jit.is_complete('all')\n"
        "jit.check_kept()\n",
        tmp_path,
    )
    last = done.stderr.splitlines()[-1]
    assert "ConfigurationError: expected room for compiled kernels in" in last, done.stderr
    assert last.endswith("found: No space left on device")


def test_a_cache_that_can_only_be_read_is_used(tmp_path: Path) -> None:
    """As in an image whose kernels were compiled when it was built: nothing is compiled that is there."""
    use = (
        "from numba.core.compiler import CompilerBase\n"
        "compiled, compile_extra = [], CompilerBase.compile_extra\n"
        "def noting(self, function):\n"
        "    compiled.append(function)\n"
        "    return compile_extra(self, function)\n"
        "CompilerBase.compile_extra = noting\n"
        "import setup_of_a_test\n"
        "print(add(1, 2), len(compiled), setup_of_a_test.THEN and add(1.5, 2), bool(jit._Cache.failures))\n"
    )
    unwritable = (
        "import errno, tempfile\n"
        "def refuse(**_):\n"
        "    raise OSError(errno.EROFS, 'Read-only file system')\n"
        "tempfile.TemporaryFile = refuse\n"
    )
    said = [
        _with_cache(tmp_path / "cache", use, tmp_path, f"{setup}THEN = {then}\n").stdout
        for setup, then in (("", False), (unwritable, False), (unwritable, True))
    ]
    assert said == ["3 1 False False\n", "3 0 False False\n", "3 0 3.5 True\n"]


def test_who_has_no_home_keeps_kernels_in_no_folder_called_tilde(tmp_path: Path) -> None:
    """A user whom the system does not know, as containers have, and who may not write beside the package."""
    look = (
        "import os, numba.misc.appdirs\n"
        "os.access = lambda *_: False\n"
        "os.path.expanduser = lambda path: path\n"
        "from stream_apple.core import jit\n"
        "print(jit.CACHE)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_", "HOME"))}
    done = subprocess.run(
        [sys.executable, "-c", look],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert Path(done.stdout).parent == Path(jit.__file__).parent / "__pycache__", done.stderr
