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
from typing import NamedTuple

import pytest
from core.machine_code import COMPILE_S, LEAST, Compiled, this_processor
from deploy.manifests import REPOSITORY
from packaging.requirements import Requirement

DOCKER = REPOSITORY / "docker"
ENTRY_POINT = DOCKER / "entrypoint.sh"
_V2 = "ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"  # as Linux spells what the psABI's levels have more than the one before
_V3 = "fma movbe xsave avx f16c abm bmi1 avx2 bmi2"


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


def where_the_image_runs(found: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Requirement without its marker -> hashes, of those that CPython on Linux installs.

    What a test needs may be for other interpreters as well, which makes another marker of the same requirement.
    """
    there = {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    there |= {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    read = {Requirement(line): hashes for line, hashes in found.items()}
    return {
        f"{each.name}{each.specifier}": hashes
        for each, hashes in read.items()
        if each.marker is None or each.marker.evaluate(there)
    }


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

    def test_compiles_for_every_processor_that_the_entry_point_names(self) -> None:
        """One set of kernels for each, where the entry point looks for it; no type is fixed when the image is built."""
        (targets,) = [rest for rest in rest_of("ARG", "build") if rest.startswith("TARGETS=")]
        named = set(re.findall(r"NUMBA_CPU_NAME=([a-z][\w-]+)", ENTRY_POINT.read_text(encoding="utf-8")))
        assert {*targets.partition("=")[2].strip('"').split()} == named
        (environment,) = rest_of("ENV")
        assert "NUMBA_CPU" not in environment
        assert "KERNELS=/opt/kernels" in environment
        (compiling,) = [step for step in rest_of("RUN", "build") if "stream-apple compile" in step]
        assert "NUMBA_CACHE_DIR=/opt/kernels/${target} " in compiling
        assert "stream-apple compile --target ${target} " in compiling
        assert "[ $? -eq 132 ]" in compiling  # what a shell makes of an instruction that the processor does not have
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
        """Every requirement of the image is in requirements.lock with the same version and hashes."""
        whole = where_the_image_runs(requirements(REPOSITORY / "requirements.lock"))
        image = where_the_image_runs(requirements(DOCKER / "requirements.lock"))
        assert len(image) > 20
        assert {name: hashes for name, hashes in whole.items() if name in image} == image
        assert all(image.values())

    def test_the_image_has_every_dependency_and_no_test_s(self) -> None:
        """Each direct dependency is locked, a registry's too; nothing that only tests need is."""
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        locked = {name.partition("==")[0] for name in requirements(DOCKER / "requirements.lock")}
        extras = project["optional-dependencies"]
        needed = project["dependencies"] + extras.pop("registry")
        assert {re.split(r"[\[<>=]", one)[0] for one in needed} <= locked
        only_extra = {re.split(r"[\[<>=]", one)[0] for group in extras.values() for one in group} - {"setuptools"}
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
        env={"PATH": path, "NUMBA_DEBUG_CACHE": "1", **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=COMPILE_S,
    )


@pytest.fixture
def image_kernels(compiled: Compiled, tmp_path: Path) -> Path:
    """A copy elsewhere, which a test may protect."""
    return Path(shutil.copytree(compiled.directory, tmp_path / "image"))


class TestProcessors:
    """Which kernels the entry point takes."""

    @pytest.mark.parametrize(
        ("flags", "target"),
        [
            ("fpu sse sse2 ssse3", "generic"),
            (f"fpu {_V2} avx", "x86-64-v2"),
            (f"{_V2} {_V3} avx512f", "x86-64-v3"),
            (f"{_V2} {_V3} avx512f avx512dq avx512cd avx512bw avx512vl", "x86-64-v4"),
        ],
    )
    def test_the_best_that_runs(self, tmp_path: Path, flags: str, target: str) -> None:
        """From the features of the first processor; another one's are not looked at."""
        told = self._tell(tmp_path, f"processor\t: 0\nflags\t\t: {flags}\n\nflags\t\t: avx512f\n", "")
        assert told == f"{target} []"

    def test_without_features_any(self, tmp_path: Path) -> None:
        """As on arm64, whose list has another name."""
        assert self._tell(tmp_path, "processor\t: 0\nFeatures\t: fp asimd\n", "") == "generic []"

    def test_a_name_that_is_given_is_kept(self, tmp_path: Path) -> None:
        """Whoever names a type knows it."""
        assert self._tell(tmp_path, "flags\t\t: fpu\n", "znver4") == "znver4 []"

    def test_without_kernels_of_the_best_the_next(self, tmp_path: Path) -> None:
        """An image that was built where the best type could not run has the others' alone."""
        (tmp_path / "x86-64-v3").mkdir()
        best = f"flags\t\t: {_V2} {_V3} avx512f avx512dq avx512cd avx512bw avx512vl\n"
        assert self._tell(tmp_path, best, "", warned=False) == "x86-64-v3 []"

    @staticmethod
    def _tell(directory: Path, processors: str, named: str, *, warned: bool = True) -> str:
        """What the process would be told: a command in the place of ours says it."""
        command, listed = directory / "stream-apple", directory / "cpuinfo"
        command.write_text('#!/bin/sh\necho "$NUMBA_CPU_NAME [$NUMBA_CPU_FEATURES]"\n')
        command.chmod(0o755)
        listed.write_text(processors)
        given = {"PATH": f"{directory}:/usr/bin:/bin", "CPUINFO": str(listed), "NUMBA_CPU_NAME": named}
        done = enter({**given, "KERNELS": str(directory), "NUMBA_CACHE_DIR": str(directory)})
        assert done.returncode == 0
        assert ("no kernels for" in done.stderr) == warned
        return done.stdout.strip()


class TestKernels:
    """Compiled once, used by every start."""

    def test_a_start_compiles_nothing(self, image_kernels: Path, tmp_path: Path) -> None:
        """From a copy elsewhere, with nothing else to write to, every kernel is loaded and none is made."""
        self._check_start(image_kernels, tmp_path, this_processor())

    @pytest.mark.long
    def test_a_start_on_the_least_processor_compiles_nothing(self, tmp_path: Path) -> None:
        """As the image's build stage does it: all kernels for a type that is named."""
        image = tmp_path / "image"
        command = [sys.executable, "-m", "stream_apple", "compile", "--target", LEAST]
        subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": str(image / LEAST)}, check=True)
        self._check_start(image, tmp_path, {"NUMBA_CPU_NAME": LEAST, "NUMBA_CPU_FEATURES": ""})

    @staticmethod
    def _check_start(image: Path, directory: Path, processor: Mapping[str, str]) -> None:
        for file in image.rglob("*"):
            file.chmod(0o555 if file.is_dir() else 0o444)
        cache = directory / "cache"
        cache.mkdir()
        done = enter({"KERNELS": str(image), "NUMBA_CACHE_DIR": str(cache), **processor}, "compile")
        assert done.returncode == 0, done.stderr
        assert "data loaded" in done.stdout
        assert "saved" not in done.stdout

    def test_another_processor_is_told_apart(self, image_kernels: Path) -> None:
        """Code for one type of processor is not taken for another's: the index has no entry for it."""
        cache = image_kernels / this_processor()["NUMBA_CPU_NAME"]
        script = "from stream_apple.records.message.feature_hashing import index_key\nindex_key(7)\n"
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_CPU_NAME": "nocona", "NUMBA_DEBUG_CACHE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=COMPILE_S,
        )
        assert done.returncode == 0, done.stderr
        assert "data loaded" not in done.stdout
        assert "data saved" in done.stdout

    def test_a_missing_place_to_write_is_named(self, compiled: Compiled, tmp_path: Path) -> None:
        """Without a writable directory it does not start, and says which one it needs."""
        file = tmp_path / "file"
        file.touch()
        given = {"KERNELS": str(compiled.directory), **this_processor()}
        done = enter({**given, "NUMBA_CACHE_DIR": str(file)}, "--version")
        assert done.returncode == 78
        assert f"expected a writable directory {file}" in done.stderr
        assert not done.stdout

    def test_the_entry_point_becomes_the_command(self, compiled: Compiled, tmp_path: Path) -> None:
        """Arguments and exit code pass through, and the file may be run."""
        assert os.access(ENTRY_POINT, os.X_OK)
        given = {"KERNELS": str(compiled.directory), "NUMBA_CACHE_DIR": str(tmp_path), **this_processor()}
        done = enter(given, "--version")
        assert (done.returncode, done.stdout) == (0, "stream-apple, version 0.1.0\n")
        assert enter(given, "no-such").returncode == 2
