"""The source distribution and the wheel: made as a release makes them, installed where nothing else is, and tried."""

import ast
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.local_http import fetch
from support.required import unavailable

from stream_apple.cli import SUMMARIES
from stream_apple.http.pages import ASSETS
from stream_apple.http.serving.page import PAGE

ROOT = Path(__file__).resolve().parent.parent
# Each of these is in the source distribution with all that it holds.
FOLDERS = (".ci", "deploy", "docker", "docs", "schemas", "stream_apple", "study", "tests")
FILES = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "requirements.lock")
_NOT_SOURCES = shutil.ignore_patterns("__pycache__", "node_modules", "*.egg-info")
_OLDEST_SETUPTOOLS = 77
_SECONDS = 120
_EXAMPLES = "".join(f"{number % 2} |f a{number % 2} b{number % 3}\n" for number in range(150))


class Distributions(NamedTuple):
    """What a release publishes."""

    source: Path
    wheel: Path


def _run(command: list[str | Path], directory: Path, **environment: str) -> str:
    """Standard output of a command that ends well, without this process's own path to the package."""
    inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        command,
        cwd=directory,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is in the repository, so that making distributions leaves nothing in it."""
    copy = tmp_path_factory.mktemp("sources") / "stream_apple"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=_NOT_SOURCES)
    for name in (*FILES, "MANIFEST.in", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def distributions(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The wheel is made from the source distribution. The tools are those of the lock, so no index is asked."""
    if importlib.util.find_spec("build") is None:
        unavailable("the package `build` is not installed: it is in the extra `test`")
    if int(importlib.metadata.version("setuptools").partition(".")[0]) < _OLDEST_SETUPTOOLS:
        unavailable(f"setuptools is older than {_OLDEST_SETUPTOOLS}: a newer one is in the extra `test`")
    target = tmp_path_factory.mktemp("dist")
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", target, sources], sources)
    (source,), (wheel,) = target.glob("*.tar.gz"), target.glob("*.whl")
    return Distributions(source, wheel)


@pytest.fixture(scope="module")
def installed(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a virtual environment with the wheel, and with the libraries of this one."""
    directory = tmp_path_factory.mktemp("installed")
    venv.create(directory, with_pip=False)
    programs = directory / "bin"
    (packages,) = directory.glob("lib/python*/site-packages")
    # A path in such a file adds a folder, without the files of this kind in it: no editable installation comes along.
    here = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "libraries.pth").write_text("\n".join(here) + "\n", encoding="utf-8")
    install = ["install", "--disable-pip-version-check", "--quiet", "--no-index", "--no-deps", "--ignore-installed"]
    _run([sys.executable, "-m", "pip", "--python", programs / "python", *install, distributions.wheel], directory)
    return programs


def _sources_below(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path.relative_to(folder))


def test_the_source_distribution_has_everything(sources: Path, distributions: Distributions) -> None:
    """Package, documents with their pictures, schemas, tests, what deploys it, and the licence; no compiled files."""
    with tarfile.open(distributions.source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert set(_sources_below(sources)) - {".gitignore"} - held == set()
    assert "stream_apple/schemas/example.schema.json" in held
    assert not [name for name in held if "__pycache__" in name]


def test_the_wheel_has_what_the_package_needs(distributions: Distributions) -> None:
    """Every module, the page's files, the schemas, the mark that it is typed, and the licence; no tests."""
    with zipfile.ZipFile(distributions.wheel) as archive:
        held = set(archive.namelist())
        for schema in (ROOT / "schemas").glob("*.json"):
            assert archive.read(f"stream_apple/schemas/{schema.name}") == schema.read_bytes()
    modules = {f"stream_apple/{name}" for name in _sources_below(ROOT / "stream_apple") if name.endswith(".py")}
    assert modules - held == set()
    assert {f"stream_apple/http/static/{name}" for name, _ in ASSETS.values()} - held == set()
    assert {f"{package.replace('.', '/')}/static/{name}" for package, name, _ in PAGE.values()} - held == set()
    assert "stream_apple/py.typed" in held
    assert [name for name in held if name.endswith("licenses/LICENSE")]
    assert {name.partition("/")[0].partition("-")[0] for name in held} == {"stream_apple"}


def test_every_library_is_declared(distributions: Distributions) -> None:
    """What a module imports is required, with all extras but `test`; nothing else is."""
    with zipfile.ZipFile(distributions.wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        head = archive.read(name).decode().partition("\n\n")[0]
        trees = [ast.parse(archive.read(name)) for name in archive.namelist() if name.endswith(".py")]
    extras = "plot|parquet|registry|library|river"
    required = re.findall(rf'^Requires-Dist: ([\w-]+)[^;\n]*(?:; extra == "(?:{extras})")?$', head, re.MULTILINE)
    imported = {
        name.partition(".")[0]
        for tree in trees
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    } - {*sys.stdlib_module_names, "stream_apple"}
    # Imported by another name than they are installed by.
    named = {"sklearn": "scikit-learn", "google": "protobuf", "grpc_tools": "grpcio-tools"}
    libraries = {named.get(name, name.replace("_", "-")) for name in imported}
    # These come with numba and pydantic, in the versions that they need.
    of_the_server = {"uvloop"}  # which uvicorn takes if it is there
    assert libraries - {"llvmlite", "pydantic-core"} == set(required) - of_the_server


def test_the_page_of_an_index_has_no_dead_links(distributions: Distributions) -> None:
    """The long description links to nothing that lies beside it in the repository only."""
    with zipfile.ZipFile(distributions.wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        head, _, text = archive.read(name).decode().partition("\n\n")
    assert "Description-Content-Type: text/markdown" in head
    assert text == (ROOT / "docs" / "package-index.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https?://)[^)]*\)|<(?:img|a)\b", text) == []


def test_the_installed_command_answers(installed: Path, tmp_path: Path) -> None:
    """`--help` names every command; the package is the installed one, and has the schemas as its docs say."""
    said = _run([installed / "stream-apple", "--help"], tmp_path)
    assert {name for name in SUMMARIES if f"  {name} " in said} == set(SUMMARIES)
    code = """if True:
        import json, stream_apple
        from importlib.resources import files
        print(stream_apple.__file__)
        print(json.loads(files("stream_apple").joinpath("schemas", "example.schema.json").read_text())["title"])
    """
    file, title = _run([installed / "python", "-c", code], tmp_path).splitlines()
    assert Path(file).is_relative_to(installed.parent)
    assert title == json.loads((ROOT / "schemas" / "example.schema.json").read_text(encoding="utf-8"))["title"]


def test_the_installed_package_learns(installed: Path, tmp_path: Path) -> None:
    """`evaluate` on a small file, interpreted: to compile would take half a minute, and the image's test does it."""
    (tmp_path / "small.vw").write_text(_EXAMPLES, encoding="utf-8")
    said = _run([installed / "stream-apple", "evaluate", "small.vw", "--json"], tmp_path, NUMBA_DISABLE_JIT="1")
    result = json.loads(said)
    assert result["examples"] == 150
    assert result["test_loss"] < 0.05


def test_the_installed_worker_serves_the_page(installed: Path, tmp_path: Path) -> None:
    """Each file of the page, as it is in the repository, from a worker that waits for its broker."""
    settings = {
        "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "STREAM_APPLE_HTTP__HOST": "127.0.0.1",
        "STREAM_APPLE_HTTP__PORT": "0",
    }
    worker = subprocess.Popen(
        [installed / "stream-apple", "run", "--log-format", "json"],
        cwd=tmp_path,
        env={**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **settings},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stderr is not None
        events = (json.loads(line) for line in worker.stderr)
        port = next(event["http_port"] for event in events if event["event"] == "started")
        for path, (name, content_type) in ASSETS.items():
            status, headers, body = fetch(port, path)
            assert (status, headers.get_content_type()) == (200, content_type)
            assert body == (ROOT / "stream_apple/http/static" / name).read_bytes()
    finally:
        worker.kill()
        worker.communicate()
