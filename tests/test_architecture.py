"""The shape of the package: who may import whom, how long a file may be, and who may touch the outside.

core  <-  runtime  <-  adapters  <-  cli        study uses core and files; files uses core
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "stream_apple"
FILES = sorted(PACKAGE.rglob("*.py"))
NAMES = [str(path.relative_to(PACKAGE)) for path in FILES]

LONGEST = 400

# Part -> the parts of this package that it may import, itself left out.
ALLOWED = {
    "errors": set[str](),
    "config": {"errors"},
    "logs": set[str](),
    "core": {"errors"},
    "runtime": {"core", "config", "errors"},
    "adapters": {"core", "runtime", "config", "errors"},
    "files": {"core", "errors"},
    "study": {"core", "files", "errors"},
    "demo": {"core", "adapters", "config", "errors"},
    "cli": {"demo", "core", "runtime", "adapters", "files", "study", "config", "logs", "errors"},
    "__main__": {"cli"},
    "__init__": {"core", "config", "errors"},
}

# Libraries that only these parts may import: technology stays at the edge.
HOMES = {
    "confluent_kafka": {"adapters", "demo"},
    "prometheus_client": {"runtime", "adapters", "demo"},
    "pydantic": {"config"},
    "pydantic_core": {"config"},
    "click": {"cli"},
    "rich": {"cli", "demo"},
    "numba": {"core"},
    "xxhash": {"core", "runtime"},
    "zstandard": {"runtime"},
    "structlog": {"logs", "runtime", "adapters", "cli"},
    "matplotlib": {"study"},
    "socket": {"adapters"},
    "http": {"adapters"},
    "logging": {"logs", "adapters"},
    "tomllib": {"config"},
}


def _part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(tree: ast.AST) -> Iterator[str]:
    """Absolute dotted names of everything that is imported, at the top or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports hide the direction"
            # `from stream_apple import logs` names a part of the package, not a thing in it.
            if node.module == "stream_apple":
                yield from (f"stream_apple.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


def _forbidden(part: str, tree: ast.AST) -> list[str]:
    """The imports of a file of `part` that go against the direction."""
    found = []
    for name in _imports(tree):
        top, _, rest = name.partition(".")
        if top == "stream_apple":
            target = rest.partition(".")[0]
            if target != part and target not in ALLOWED[part]:
                found.append(name)
        elif part not in HOMES.get(top, {part}):
            found.append(name)
    return found


def _outside(part: str, tree: ast.AST) -> list[str]:
    """Uses of print outside the command line, and of the environment outside configuration and demo."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "print" and part != "cli":
            found.append(f"line {node.lineno}: print")
        environment = {"environ", "getenv", "environb", "putenv"}
        named = (isinstance(node, ast.Attribute) and node.attr in environment) or (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and any(alias.name in environment for alias in node.names)
        )
        # The demo hands the environment to its worker, without the settings that are meant for another one.
        if named and part not in {"config", "demo"}:
            found.append(f"line {getattr(node, 'lineno', 0)}: the environment")
    return found


@pytest.fixture(params=FILES, ids=NAMES)
def path(request: pytest.FixtureRequest) -> Path:
    """Each file of the package."""
    file: Path = request.param
    return file


def test_every_part_has_its_place() -> None:
    """A new part of the package must be given its place in the direction of imports."""
    assert {_part(path) for path in FILES} <= set(ALLOWED)


def test_the_direction_has_no_cycle() -> None:
    """Following the allowed imports never leads back."""
    order: list[str] = []
    while len(order) < len(ALLOWED):
        ready = [part for part, used in ALLOWED.items() if part not in order and used <= set(order)]
        assert ready
        order += ready


def test_imports_follow_the_direction(path: Path) -> None:
    """No file imports a part, or a technology, that is not for it."""
    assert _forbidden(_part(path), ast.parse(path.read_text(encoding="utf-8"))) == []


def test_the_outside_is_touched_at_the_edge(path: Path) -> None:
    """Only commands print, and only the configuration reads the environment."""
    assert _outside(_part(path), ast.parse(path.read_text(encoding="utf-8"))) == []


def test_files_are_short(path: Path) -> None:
    """A file that outgrows this has more than one reason to change."""
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST


def test_modules_say_what_they_own(path: Path) -> None:
    """Every module has a docstring."""
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


class TestRules:
    """The rules above see what they are for."""

    @pytest.mark.parametrize(
        ("part", "source"),
        [
            ("core", "from stream_apple.runtime.step import PartitionModel"),
            ("core", "from stream_apple.config import Config"),
            ("runtime", "import stream_apple.adapters.kafka"),
            ("adapters", "from stream_apple import cli"),
            ("study", "def late():\n    from stream_apple.runtime import step"),
            ("files", "from stream_apple.study import evaluation"),
            ("core", "import confluent_kafka"),
            ("runtime", "from confluent_kafka import Consumer"),
            ("core", "import logging"),
        ],
    )
    def test_forbidden_imports_are_found(self, part: str, source: str) -> None:
        """Each kind of wrong import is seen, wherever it stands."""
        assert len(_forbidden(part, ast.parse(source))) == 1

    @pytest.mark.parametrize(
        "source",
        ["print(1)", "import os\nos.environ['X']", "from os import environ", "import os\nos.getenv('X')"],
    )
    def test_touching_the_outside_is_found(self, source: str) -> None:
        """Each way to print or to read the environment is seen."""
        assert len(_outside("runtime", ast.parse(source))) == 1
