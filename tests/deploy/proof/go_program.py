"""Programs that are built from their Go modules, which takes minutes once.

Each has a folder with a module of ours, which requires that of the program and repeats its replacements: those of a
module hold for its own builds only.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from deploy.proof.debian import CACHE
from support.required import UnavailableError, fetch_once

_BUILD_SECONDS = 5400


class GoProgram(NamedTuple):
    """A program.

    name     its file's
    module   its path, as Go names it
    package  below the module
    folder   of our module
    stamp    the variable that holds the version it says it is
    """

    name: str
    module: str
    package: str
    folder: Path
    stamp: str

    def version(self) -> str:
        """The version that our module requires."""
        text = (self.folder / "go.mod").read_text(encoding="utf-8")
        found = re.search(rf"^(?:require|\t) ?{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        assert found is not None
        return found.group(1)

    def source(self) -> Path:
        """Return the folder of the module's own files; UnavailableError if it can't be had."""
        found = self._go("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", self.module)
        return Path(found.strip())

    def resolve(self, cache: Path = CACHE) -> Path:
        """The program, built if need be; UnavailableError if that can't be done."""
        pinned = hashlib.sha256(
            b"".join((self.folder / name).read_bytes() for name in ("go.mod", "go.sum"))
        ).hexdigest()
        return fetch_once(cache / self.name / f"{self.version()}-{pinned[:16]}", self._build) / self.name

    def _build(self, directory: Path) -> Path:
        made = directory / "made"
        flags = f"-s -w -X {self.stamp}={self.version()}"
        self._go(
            "build",
            "-mod=readonly",
            "-trimpath",
            "-ldflags",
            flags,
            "-o",
            str(made / self.name),
            f"{self.module}/{self.package}",
        )
        return made

    def _go(self, *arguments: str) -> str:
        go = shutil.which("go")
        if go is None:
            raise UnavailableError(f"{self.name} is built with `go`, which is not on the path")
        try:
            done = subprocess.run(
                [go, *arguments],
                cwd=self.folder,
                env={**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"},
                capture_output=True,
                text=True,
                check=False,
                timeout=_BUILD_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"{self.name} was not built within {_BUILD_SECONDS} s") from None
        if done.returncode:
            raise UnavailableError(f"{self.name} can't be built: {done.stderr[-2000:]}")
        return done.stdout
