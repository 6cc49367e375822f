"""Kernels that are compiled for other processors, or not at all, learn the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from core.machine_code import LEAST, counts_references, machine_code

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def digests() -> str:
    """What this processor learns, with all that it has."""
    return learned()


def learned(first: str = "", *, few: bool = False, **environment: str) -> str:
    """The digests of another process, which does something else first; of all cases, or of the few most used."""
    done = subprocess.run(
        [sys.executable, "-c", f"{first}\nfrom learners.apple.learned_digests import show\nshow(few={few})"],
        env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def learned_by(processor: str, cache: Path, *, few: bool = False) -> str:
    """The digests with the instructions that a type of processor has, and no more; no reference is counted on it."""
    found = learned(few=few, NUMBA_CACHE_DIR=str(cache), NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES="")
    kernels = machine_code(cache)
    assert kernels
    assert not any(map(counts_references, kernels.values()))
    return found


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.long)], ids=["few cases", "all cases"])
def test_the_least_processor_learns_the_same_bits(few: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """With what all have: on x86-64 SSE2, and neither gathers nor masks.

    What is compiled by who aims at a type is found by who is told of it, as in the image.
    """
    digests = learned(few=few)
    aim = f"from stream_apple.core.jit import aim_at\naim_at({LEAST!r})"
    assert learned(aim, few=few, NUMBA_CACHE_DIR=str(tmp_path)) == digests
    aimed = machine_code(tmp_path).keys()
    assert learned_by(LEAST, tmp_path, few=few) == digests
    assert machine_code(tmp_path).keys() == aimed


@pytest.mark.long
@pytest.mark.parametrize(
    ("processor", "needed"),
    [("skylake-avx512", "avx512vl"), ("skylake", "avx2"), ("znver3", "vaes"), ("nehalem", "sse4_2")],
)
def test_every_processor_learns_the_same_bits(processor: str, needed: str, digests: str, tmp_path: Path) -> None:
    """With AVX-512, with AVX2, with AVX2 and gathers taken apart, with SSE4; skipped where it can't run."""
    if needed not in Path("/proc/cpuinfo").read_text(encoding="utf-8").split():
        pytest.skip(f"this processor has no {needed}")
    assert learned_by(processor, tmp_path) == digests


def test_interpreted_kernels_learn_the_same_bits(digests: str) -> None:
    """Without the compiler too, so that coverage and a debugger can be trusted."""
    assert learned(NUMBA_DISABLE_JIT="1") == digests
