"""Kernels in a cache on disk: which of them a process takes, what `compile` leaves there, and what is in them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from numba.core.registry import cpu_target

from stream_apple.core.jit import CACHE

COMPILE_S = 900
LEAST = "generic"  # the processor that has no more than any machine that tests can run


class Compiled(NamedTuple):
    """What is there after `stream-apple compile`.

    directory  what the image's build stage has at /opt/kernels: a cache, named after this processor
    kernels    those that the command has compiled, or found compiled
    """

    directory: Path
    kernels: frozenset[str]

    @property
    def cache(self) -> Path:
        """The cache itself."""
        return self.directory / this_processor()["NUMBA_CPU_NAME"]


def this_processor() -> dict[str, str]:
    """The variables that name to Numba what it finds by itself: the type of this processor, and its features."""
    _, name, features = cpu_target.target_context.codegen().magic_tuple()
    return {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}


def compile_all(directory: Path) -> Compiled:
    """Let the command compile into an empty directory: what this machine has compiled before it only loads."""
    found = Compiled(directory, frozenset())
    if CACHE.is_dir():
        shutil.copytree(CACHE, found.cache / CACHE.name)
    done = subprocess.run(
        [sys.executable, "-m", "stream_apple", "compile"],
        env={**os.environ, "NUMBA_CACHE_DIR": str(found.cache), "NUMBA_DEBUG_CACHE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=COMPILE_S,
    )
    assert done.returncode == 0, done.stderr
    return found._replace(kernels=kernels_in(done.stdout))


def kernels_in(told: str) -> frozenset[str]:
    """The object files, below the cache, of which Numba has told that it has loaded or saved them."""
    paths = re.findall(r"\[cache\] data (?:loaded from|saved to) '(.*)'", told)
    return frozenset("/".join(Path(path).parts[-2:]) for path in paths)


def machine_code(cache: Path) -> dict[str, bytes]:
    """The object files below the directory, each in the wrapping that Numba stores it in, by the kernel's name."""
    return {path.name: path.read_bytes() for path in cache.rglob("*.nbc")}


def counts_references(code: bytes) -> bool:
    """Whether it calls Numba's runtime: its functions are called by name, on every processor."""
    return b"NRT_" in code
