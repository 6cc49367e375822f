"""The image, built by `buildah` from the Dockerfile as it is, and run as compose and Kubernetes run it.

Neither needs a registry of images or a daemon: the base image is made by debootstrap, with Debian's Python in the place
of the one that the Dockerfile's base has, and gets its tag.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from deploy.manifests import REPOSITORY
from deploy.proof.debian import CACHE, Programs, site_of
from support.child_process import start_child
from support.required import UnavailableError, fetch_once

DOCKERFILE = REPOSITORY / "docker" / "Dockerfile"
_JAIL = Path(__file__).parent / "jail.sh"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_SECONDS = 3000
_RUN_SECONDS = 120


def base_tag() -> str:
    """The tag of Python's image that the Dockerfile begins with, such as `3.11.13-slim-bookworm`."""
    (line,) = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if line.startswith("ARG PYTHON=")]
    return line.partition("=")[2]


def resolve_base(cache: Path = CACHE) -> Path:
    """A directory with `base.tar`, a root file system with what the base image has; UnavailableError if it can't be."""
    return fetch_once(cache / "base" / base_tag(), _bootstrap)


def _bootstrap(directory: Path) -> Path:
    programs = Programs("debootstrap")
    version, _, codename = base_tag().rsplit("-", 2)
    root, made = directory / "root", directory / "made"
    options = ("--variant=minbase", "--include=python3,python3-venv")
    said = _run(programs.command("debootstrap", *options, codename, root, site_of(codename)))
    if said.returncode:
        raise UnavailableError(f"debootstrap can't make Debian {codename}: {(said.stdout + said.stderr)[-2000:]}")
    wanted = ".".join(version.split(".")[:2])
    python = root / "usr" / "bin" / f"python{wanted}"
    if not python.exists():
        raise UnavailableError(f"expected Python {wanted} in Debian {codename}, as in the Dockerfile's {base_tag()}")
    for name in ("python", "python3", f"python{wanted}"):
        (root / "usr" / "local" / "bin" / name).symlink_to(f"/usr/bin/{python.name}")
    made.mkdir()
    packed = _run(["tar", "--numeric-owner", "--exclude=./var/cache/apt", "-C", root, "-cf", made / "base.tar", "."])
    assert packed.returncode == 0, packed.stderr
    return made


class Image:
    """The image, built and laid out as a directory: a context, at whose end all of it is gone but the cached base."""

    def __init__(self, directory: Path) -> None:
        self._programs = Programs("buildah")
        self._base = resolve_base() / "base.tar"
        self._directory = directory
        self.configuration: dict[str, Any] = {}
        self.root = Path()

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        (self._directory / "registries.conf").write_text("unqualified-search-registries = []\n")
        try:
            self._make_base()
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._directory / "storage", ignore_errors=True)

    def _make_base(self) -> None:
        container = self._do("from", "scratch").strip()
        self._do("add", "--quiet", container, str(self._base), "/")
        self._do("config", "--env", "PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", container)
        self._do("commit", "--quiet", container, f"localhost/python:{base_tag()}")
        self._do("rm", container)

    def _build(self) -> None:
        settings = self._directory / "pip.conf"
        settings.write_text(_pip_settings())
        # This machine's way to the index of packages; the Dockerfile knows nothing of it.
        mounts = {settings: "/etc/pip.conf", _CERTIFICATES: str(_CERTIFICATES)}
        mounts |= {Path(place): place for place in os.environ.get("PIP_FIND_LINKS", "").split() if Path(place).is_dir()}
        volumes = [f"--volume={source}:{target}:ro" for source, target in mounts.items() if source.exists()]
        build = ["build", "--isolation", "chroot", "--pull-never", "--layers=false", *volumes]
        self._do(*build, "--file", str(DOCKERFILE), "--tag", "localhost/stream-apple:proof", str(REPOSITORY))
        described = json.loads(self._do("inspect", "--type", "image", "localhost/stream-apple:proof"))
        self.configuration = described["OCIv1"]["config"]
        container = self._do("from", "--pull-never", "localhost/stream-apple:proof").strip()
        self.root = Path(self._do("mount", container).strip())
        # A runtime makes the places at which it mounts something.
        (self.root / "etc" / "stream-apple").mkdir()

    def _do(self, *arguments: str) -> str:
        place = self._directory / "storage"
        command = self._programs.command("buildah", "--storage-driver", "vfs", "--root", place / "root")
        command += ["--runroot", place / "run", "--registries-conf", self._directory / "registries.conf"]
        options = ["--signature-policy", str(self._directory / "policy.json")]
        has_policy = arguments[0] in {"from", "build", "commit"}
        done = _run(
            [*command, arguments[0], *(options if has_policy else []), *arguments[1:]],
            {**os.environ, "TMPDIR": str(self._directory)},
        )
        assert done.returncode == 0, f"buildah {' '.join(arguments)}: {(done.stdout + done.stderr)[-6000:]}"
        return done.stdout

    def _command(self, arguments: Sequence[str], mounted: Path, environment: Mapping[str, str]) -> list[str | Path]:
        """What runs the image: its user, variables and entry point are what the image says."""
        user, _, group = self.configuration["User"].partition(":")
        assert user.isdigit(), "Kubernetes could not see that it is not root"
        assert user == group
        variables = [*self.configuration["Env"], *(f"{name}={value}" for name, value in environment.items())]
        jail: list[str | Path] = ["unshare", "--mount", "sh", _JAIL, self.root, user, mounted]
        return [*jail, "/usr/bin/env", "-i", *variables, *self.configuration["Entrypoint"], *arguments]

    def run(
        self, arguments: Sequence[str], mounted: Path, environment: Mapping[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        """How it ended, with these arguments; `mounted`, a directory, is at /etc/stream-apple."""
        return _run(self._command(arguments, mounted, environment), seconds=_RUN_SECONDS)

    def start(
        self, arguments: Sequence[str], mounted: Path, environment: Mapping[str, str], log: Path
    ) -> "subprocess.Popen[bytes]":
        """The process; what it says goes into `log`."""
        return start_child(self._command(arguments, mounted, environment), log)


def _pip_settings() -> str:
    """What `pip config list` says here, as a file of its own."""
    listed = _run([sys.executable, "-m", "pip", "config", "list"]).stdout
    lines = [line.partition("=") for line in listed.splitlines()]
    found = {name.rpartition(".")[2]: value.strip("'\"") for name, _, value in lines}
    return "\n".join(["[global]", *(f"{name} = {value}" for name, value in found.items() if value), ""])


def _run(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, seconds: float = _SECONDS
) -> "subprocess.CompletedProcess[str]":
    with tempfile.TemporaryDirectory() as directory:
        return subprocess.run(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
