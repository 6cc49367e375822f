"""Programs of Debian that the proofs need: downloaded and unpacked into a cache, never installed, and not started."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.required import UnavailableError, fetch_once

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stream-apple-tests"
"""Outside of the repository: what is here takes minutes to make, and a fresh clone must not make it again.

Each kind of thing has a folder, which is locked while one is made: making one may need another kind.
"""

_FETCH_SECONDS = 300
_OVERLAID = 'mount --make-rprivate / && mount -t overlay overlay -o "lowerdir=$0/usr:/usr" /usr && exec "$@"'


class Programs:
    """Some packages, with what they need beyond what this machine has. UnavailableError if they can't be had."""

    def __init__(self, *packages: str, cache: Path = CACHE) -> None:
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None or os.geteuid() != 0:
            raise UnavailableError(f"Debian's {' and '.join(packages)} are needed, which root gets with apt-get")
        name = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:16]
        self._packages = packages
        self.root = fetch_once(cache / "debian" / name, self._unpack)

    def command(self, program: str, *arguments: str | Path) -> list[str | Path]:
        """The command that runs a program of theirs: it sees the packages as if they were installed; nobody else does.

        What it starts sees them, too, whatever becomes of its environment.
        """
        return ["unshare", "--mount", "sh", "-c", _OVERLAID, self.root, program, *arguments]

    def _unpack(self, directory: Path) -> Path:
        archives, root = directory / "archives", directory / "root"
        (archives / "partial").mkdir(parents=True)
        (root / "usr").mkdir(parents=True)
        download = ["apt-get", "--yes", "--no-install-recommends", "--download-only", "--reinstall"]
        download += ["-o", f"Dir::Cache::archives={archives}/", "-o", "Debug::NoLocking=1", "install", *self._packages]
        # Machines that were made from an image often have no lists of packages.
        for command in (download, ["apt-get", "update"], download):
            said = _run(command)
            if said.returncode == 0 and command is download:
                break
        else:
            raise UnavailableError(f"Debian's {' and '.join(self._packages)} can't be had: {said.stderr[-2000:]}")
        for package in archives.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, root], check=True)
        return root


def site_of(codename: str) -> str:
    """Where this machine has the packages of a release of Debian from; UnavailableError if from nowhere."""
    asked = ["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages"]
    for line in _run(asked).stdout.splitlines():
        name, _, site = line.partition(" ")
        if name == codename:
            return site
    raise UnavailableError(f"this machine's apt knows no packages of Debian {codename}")


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"`{' '.join(command)}` did not end within {_FETCH_SECONDS} s") from None
