"""How functions are compiled, and where compiled code is kept."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from core.machine_code import counts_references, machine_code
from learners.apple.test_learner import batch_of, planted_rows, run
from numba.core.errors import TypingError
from numpy.typing import NDArray

from stream_apple.core.jit import CACHE, copy_numbers, kernel, part, routine
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options

COMPILED = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


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
    """The same as what it calls."""
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


def test_routines_run_in_kernels_and_in_python() -> None:
    """Inlined or not, compiled or not."""
    assert _sum_of_quarters(5) == 0.25 + 2.5
    assert _quarter(3) == 0.75


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
said = []
tell_of_compiling(lambda: said.append("compiling"))
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


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_compiling_is_announced_once_and_only_if_the_cache_lacks_the_code(tmp_path: Path) -> None:
    """Two types of arguments are compiled in the first process, and loaded in the next one."""
    found = [
        _with_cache(tmp_path / "cache", "add(1, 2), add(1.0, 2.0)\nprint(said)\n", tmp_path).stdout for _ in range(2)
    ]
    assert found == ["['compiling']\n", "[]\n"]


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_kernels_of_other_packages_stay_where_they_were(tmp_path: Path) -> None:
    """Numba's settings are those of the process: they are as before when a kernel has been decorated."""
    (tmp_path / "other").mkdir()
    source = (
        "import numba\n"
        "@numba.njit(cache=True)\n"
        "def double(number):\n"
        "    return 2 * number\n"
        "assert add(1, 2) == 3 and double(2) == 4\n"
    )
    done = _with_cache(tmp_path / "cache", source, tmp_path)
    assert done.returncode == 0, done.stderr
    kept = {path.name.partition("-")[0]: path.relative_to(tmp_path / "cache") for path in tmp_path.rglob("*.nbi")}
    assert kept["kernels_of_a_test.add"].parts[0] == CACHE.name
    assert kept["kernels_of_a_test.double"].parts[0] != CACHE.name


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """The message says which directory is full, and which variable names another one."""
    done = _with_cache(
        tmp_path / "cache",
        "from errno import ENOSPC\n"
        "from numba.core.caching import IndexDataCacheFile\n"
        "def full(*_):\n"
        "    raise OSError(ENOSPC, 'No space left on device')\n"
        "IndexDataCacheFile.save = full\n"
        "with jit.room_for_kernels():\n"
        "    add(1, 2)\n",
        tmp_path,
    )
    last = done.stderr.splitlines()[-1]
    assert "ConfigurationError: expected room for compiled kernels in" in last, done.stderr
    assert last.endswith("found: No space left on device; NUMBA_CACHE_DIR names another directory")


def test_who_has_no_home_keeps_kernels_in_no_folder_called_tilde(tmp_path: Path) -> None:
    """A user whom the system does not know, as containers have, and who may not write beside the package."""
    look = (
        "import os\n"
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
    assert Path(done.stdout).parent == Path(__file__).parents[2] / "stream_apple" / "core" / "__pycache__", done.stderr
