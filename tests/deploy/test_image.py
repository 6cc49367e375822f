"""The Dockerfile, read as its steps; what it installs; and its entry point with kernels in a directory of their own."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from deploy.manifests import REPOSITORY

from stream_apple.core.learner import Loss, Method

DOCKER = REPOSITORY / "docker"
ENTRY_POINT = DOCKER / "entrypoint.sh"
_COMPILE_SECONDS = 500


class Step(NamedTuple):
    """One instruction of the Dockerfile, in the stage of this name."""

    stage: str
    word: str
    rest: str


def steps() -> Iterator[Step]:
    """All instructions, continued lines joined."""
    lines = [line for line in (DOCKER / "Dockerfile").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    stage = ""
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, rest = line.split(maxsplit=1)
            stage = rest.split(" AS ")[1] if word == "FROM" else stage
            yield Step(stage, word, re.sub(r"\s+", " ", rest))


STEPS = list(steps())


def rest_of(word: str, stage: str = "runtime") -> list[str]:
    """What follows this word, for each step of the stage."""
    return [step.rest for step in STEPS if (step.word, step.stage) == (word, stage)]


def requirements(path: Path) -> dict[str, frozenset[str]]:
    """Requirement with its marker -> hashes, of a lock file."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith((" ", "#")):
            requirement, *hashes = line.split(" --hash=")
            found[requirement.strip()] = frozenset(one.split()[0] for one in hashes)
    return found


class TestDockerfile:
    """Its steps."""

    def test_has_two_stages_on_one_pinned_base(self) -> None:
        """What builds does not ship, and the interpreter is the same in both."""
        assert [step.rest for step in STEPS if step.word == "FROM"] == [
            "python:${PYTHON} AS build",
            "python:${PYTHON} AS runtime",
        ]
        (tag,) = [step.rest for step in STEPS if step.word == "ARG" and step.stage == ""]
        assert re.fullmatch(r"PYTHON=\d+\.\d+\.\d+-slim-\w+", tag)

    def test_installs_by_hash_only(self) -> None:
        """Every installation either checks hashes or reaches no index; no build fetches its tools by itself."""
        commands = " && ".join(rest_of("RUN", "build")).split("&&")
        installs = [command for command in commands if re.search(r"pip\b.* install", command)]
        assert len(installs) == 3
        for command in installs:
            assert "--require-hashes" in command or "--no-index" in command
        (wheel,) = [command for command in commands if "pip wheel" in command]
        assert {"--no-deps", "--no-build-isolation"} <= set(wheel.split())
        assert not any("pip" in step for step in rest_of("RUN"))

    def test_ends_as_a_numbered_user_in_exec_form(self) -> None:
        """Kubernetes can see that it is not root, and signals reach the process that they are meant for."""
        assert rest_of("USER") == ["65532:65532"]
        assert STEPS.index(Step("runtime", "USER", "65532:65532")) > max(
            number for number, step in enumerate(STEPS) if step.word == "RUN"
        )
        assert json.loads(*rest_of("ENTRYPOINT")) == ["/usr/local/bin/stream-apple-entrypoint"]
        assert json.loads(*rest_of("CMD")) == ["run"]
        assert rest_of("STOPSIGNAL") == ["SIGTERM"]

    def test_processors_are_the_same_at_build_and_run(self) -> None:
        """What is compiled is used: the same type of processor, and the directory that the entry point copies."""
        assert rest_of("ARG", "build")[0] == rest_of("ARG")[0] == "NUMBA_CPU_NAME=generic"
        (environment,) = rest_of("ENV")
        assert "NUMBA_CPU_NAME=${NUMBA_CPU_NAME}" in environment
        assert "KERNELS=/opt/kernels" in environment
        (compiling,) = [step for step in rest_of("RUN", "build") if "stream-apple compile" in step]
        assert compiling.startswith("NUMBA_CACHE_DIR=/opt/kernels NUMBA_CPU_NAME=${NUMBA_CPU_NAME} ")
        assert "--from=build /opt/kernels /opt/kernels" in rest_of("COPY")

    def test_copies_what_is_there_and_not_ignored(self) -> None:
        """Each file that a step copies is in the repository, and .dockerignore lets it and nothing else through."""
        lines = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
        allowed = [line[1:] for line in lines if line.startswith("!")]
        assert lines[0] == "*"
        copied = []
        for step in STEPS:
            if step.word == "COPY" and "--from=" not in step.rest:
                copied += [path for path in step.rest.split()[:-1] if not path.startswith("--")]
        for path in copied:
            assert (REPOSITORY / path).exists(), path
        assert sorted(copied) == sorted(allowed)
        assert all((REPOSITORY / path).exists() for path in allowed)
        assert any(fnmatch("stream_apple/core/__pycache__", line) for line in lines if line.startswith("**"))

    def test_labels_say_what_the_package_says(self) -> None:
        """Version and licence are those of pyproject.toml; the port is the default one."""
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        (labels,) = rest_of("LABEL")
        assert f'org.opencontainers.image.version="{project["version"]}"' in labels
        assert f'org.opencontainers.image.licenses="{project["license"]}"' in labels
        assert rest_of("EXPOSE") == ["9400"]


class TestLocks:
    """What the image installs."""

    def test_the_image_s_lock_is_part_of_the_lock(self) -> None:
        """Every requirement of the image is in requirements.lock with the same version, marker and hashes."""
        whole = requirements(REPOSITORY / "requirements.lock")
        image = requirements(DOCKER / "requirements.lock")
        assert {name: hashes for name, hashes in whole.items() if name in image} == image
        assert all(image.values())

    def test_the_image_has_every_dependency_and_no_test_s(self) -> None:
        """Each direct dependency is locked; nothing that only tests or studies need is."""
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        locked = {name.partition("==")[0] for name in requirements(DOCKER / "requirements.lock")}
        assert {re.split(r"[<>=]", one)[0] for one in project["dependencies"]} <= locked
        extra = [one for group in project["optional-dependencies"].values() for one in group]
        only_extra = {re.split(r"[<>=]", one)[0] for one in extra}
        assert not locked & only_extra

    def test_what_builds_the_wheel_is_locked(self) -> None:
        """The build system of pyproject.toml is in build.lock, with hashes."""
        system = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
        locked = requirements(DOCKER / "build.lock")
        names = {name.partition("==")[0] for name in locked}
        assert {re.split(r"[<>=]", one)[0] for one in system["requires"]} <= names
        assert all(locked.values())


def enter(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The entry point with this environment and nothing else, in a directory that is not the repository."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(
        [str(ENTRY_POINT), *arguments],
        env={"PATH": path, "NUMBA_CPU_NAME": "generic", "NUMBA_DEBUG_CACHE": "1", **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=_COMPILE_SECONDS,
    )


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build stage has at /opt/kernels: compiled anew, for the Dockerfile's type of processor."""
    directory = tmp_path_factory.mktemp("kernels")
    empty = tmp_path_factory.mktemp("empty")
    done = enter({"KERNELS": str(empty), "NUMBA_CACHE_DIR": str(directory)}, "compile")
    assert done.returncode == 0, done.stderr
    assert "data saved" in done.stdout
    return directory


class TestKernels:
    """Compiled once, used by every start."""

    def test_a_start_compiles_nothing(self, kernels: Path, tmp_path: Path) -> None:
        """From a copy elsewhere, with nothing else to write to, every kernel is loaded and none is made."""
        for file in kernels.rglob("*"):
            file.chmod(0o555 if file.is_dir() else 0o444)
        cache = tmp_path / "cache"
        cache.mkdir()
        done = enter({"KERNELS": str(kernels), "NUMBA_CACHE_DIR": str(cache)}, "compile")
        assert done.returncode == 0, done.stderr
        assert "data loaded" in done.stdout
        assert "saved" not in done.stdout

    @pytest.mark.parametrize("method", get_args(Method))
    @pytest.mark.parametrize("loss", get_args(Loss))
    def test_every_configuration_is_covered(self, kernels: Path, tmp_path: Path, method: Method, loss: Loss) -> None:
        """Whatever method and loss a worker has, its warm-up finds all its kernels compiled."""
        cache = Path(shutil.copytree(kernels, tmp_path / "cache"))
        script = (
            "from stream_apple.adapters.worker import model_settings\n"
            "from stream_apple.config import load\n"
            "from stream_apple.core.decode import Decoder\n"
            "from stream_apple.runtime.warmup import warm_up\n"
            "settings = model_settings(load())\n"
            "warm_up(settings, Decoder(settings.limits))\n"
        )
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_APPLE_")}
        environment |= {
            "NUMBA_CACHE_DIR": str(cache),
            "NUMBA_CPU_NAME": "generic",
            "NUMBA_DEBUG_CACHE": "1",
            "STREAM_APPLE_LEARNER__METHOD": method,
            "STREAM_APPLE_LEARNER__LOSS": loss,
        }
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMPILE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        assert "data loaded" in done.stdout
        assert "saved" not in done.stdout

    def test_another_processor_is_told_apart(self, kernels: Path, tmp_path: Path) -> None:
        """Code for one type of processor is not taken for another's: the index has no entry for it."""
        cache = Path(shutil.copytree(kernels, tmp_path / "cache"))
        script = (
            "import numpy as np\n"
            "from stream_apple.core.table import knock\n"
            "knock(np.zeros(8, np.uint64), np.zeros(8, np.uint8), np.uint64(1))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_CPU_NAME": "nocona", "NUMBA_DEBUG_CACHE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMPILE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        assert "data loaded" not in done.stdout
        assert "data saved" in done.stdout

    def test_a_missing_place_to_write_is_named(self, kernels: Path, tmp_path: Path) -> None:
        """Without a writable directory it does not start, and says which one it needs."""
        file = tmp_path / "file"
        file.touch()
        done = enter({"KERNELS": str(kernels), "NUMBA_CACHE_DIR": str(file)}, "--version")
        assert done.returncode == 78
        assert f"expected a writable directory {file}" in done.stderr
        assert not done.stdout

    def test_the_entry_point_becomes_the_command(self, kernels: Path, tmp_path: Path) -> None:
        """Arguments and exit code pass through, and the file may be run."""
        assert os.access(ENTRY_POINT, os.X_OK)
        done = enter({"KERNELS": str(kernels), "NUMBA_CACHE_DIR": str(tmp_path)}, "--version")
        assert (done.returncode, done.stdout) == (0, "stream-apple, version 0.1.0\n")
        assert enter({"KERNELS": str(kernels), "NUMBA_CACHE_DIR": str(tmp_path)}, "no-such").returncode == 2
