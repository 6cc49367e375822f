"""Kernels in a cache on disk: compiled for the least processor, once for all who need them; and what is in them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.required import fetch_once

TARGET = "generic"  # what any machine that tests can run
COMPILE_S = 500


def compile_once(factory: pytest.TempPathFactory) -> Path:
    """A directory whose `generic` is a cache of every kernel, made anew in each run of the tests; to be copied."""
    base = factory.getbasetemp()
    # Of several processes that share the suite each has a directory of its own in the run's.
    return fetch_once((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "generic-kernels", _compile)


def _compile(work: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "stream_apple", "compile", "--target", TARGET],
        env={**os.environ, "NUMBA_CACHE_DIR": str(work / "made" / TARGET), "NUMBA_DEBUG_CACHE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=COMPILE_S,
    )
    assert done.returncode == 0, done.stderr
    assert "data saved" in done.stdout
    return work / "made"


def machine_code(cache: Path) -> dict[str, bytes]:
    """The object files below the directory, each in the wrapping that Numba stores it in, by the kernel's name."""
    return {path.name: path.read_bytes() for path in cache.rglob("*.nbc")}


def counts_references(code: bytes) -> bool:
    """Whether it calls Numba's runtime: its functions are called by name, on every processor."""
    return b"NRT_" in code
