"""Kernels in a cache on disk: compiled for the least processor, once for all who need them; and what is in them."""

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from support.required import fetch_once

TARGET = "generic"  # what any machine that tests can run
COMPILE_S = 900

_ROOT = Path(__file__).resolve().parents[2]
_KEPT = _ROOT / ".cache" / "kernels"


def compile_once() -> Path:
    """A directory whose `generic` is a cache of every kernel, to be copied: kept while nothing of the product changes.

    Made anew for other sources, of whatever module, and another Numba, LLVM or Python; only the newest is kept.
    """
    digest = hashlib.sha256("\0".join((sys.version, version("numba"), version("llvmlite"))).encode())
    for source in sorted((_ROOT / "stream_apple").rglob("*.py")):
        digest.update(source.read_bytes())
    return fetch_once(_KEPT / digest.hexdigest()[:16], _compile)


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
    for older in _KEPT.iterdir():
        if older != work:
            shutil.rmtree(older)
    return work / "made"


def machine_code(cache: Path) -> dict[str, bytes]:
    """The object files below the directory, each in the wrapping that Numba stores it in, by the kernel's name."""
    return {path.name: path.read_bytes() for path in cache.rglob("*.nbc")}


def counts_references(code: bytes) -> bool:
    """Whether it calls Numba's runtime: its functions are called by name, on every processor."""
    return b"NRT_" in code
