"""How much may stand in one place, and that a name means one thing: limits that keep the house habitable."""

import ast
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.required import unavailable
from support.source_files import FILES, PACKAGE, ROOT, TESTS, dotted_name, tree_of

MOST_LINES = 350
MOST_LINES_OF_THE_LOOP = 300
MOST_MODULES = 16
MOST_FIELDS = 12
MOST_PARAMETERS = 8

LONG = {
    "requirements.lock": "a tool writes it: each package's version with all its hashes",
    "docker/requirements.lock": "a tool writes it: each package's version with all its hashes",
    "deploy/monitoring/dashboard.json": "Grafana reads a dashboard from one file",
}
"""Files that may have more lines, each with its reason."""

ALIKE = {
    "command": "every module of `cli` has its click command under this name",
    "parse_line": "every format of `files` that has lines has its function under this name",
}
"""Public names that several modules have on purpose."""


def _crowded_functions(tree: ast.AST) -> list[str]:
    """Functions with too many parameters; kernels take their arrays one by one."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and not any(ast.unparse(d) == "kernel" for d in node.decorator_list):
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = sum(parameter.arg not in {"self", "cls"} for parameter in parameters)
            if count > MOST_PARAMETERS:
                found.append(f"line {node.lineno}: {node.name} has {count} parameters")
    return found


def _crowded_classes(tree: ast.AST) -> list[str]:
    """Classes with too many fields: those that are declared, and those that methods assign."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            declared = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
            fields = {target.id for target in declared if isinstance(target, ast.Name)}
            for each in ast.walk(node):
                if (
                    isinstance(each, ast.Attribute)
                    and isinstance(each.ctx, ast.Store)
                    and ast.unparse(each.value) == "self"
                ):
                    fields.add(each.attr)
            if len(fields) > MOST_FIELDS:
                found.append(f"line {node.lineno}: {node.name} has {len(fields)} fields")
    return found


def _public_names(path: Path) -> Iterator[str]:
    """Classes, functions and named types that a module defines for others."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        else:
            names = [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []
        # Constants are read with the module that has them; types and functions stand alone.
        yield from (name for name in names if not name.startswith("_") and not name.isupper())


def _repository_files() -> Iterator[Path]:
    """What git tracks, or would if it were added."""
    if not (ROOT / ".git").exists():
        unavailable("which files are the repository's is known to git alone, and this is no clone")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    yield from (ROOT / name for name in listed.split("\0") if (ROOT / name).is_file())


def _lines(file: Path) -> int:
    """0 for what is not text; git, too, tells it by its zeros."""
    content = file.read_bytes()
    return 0 if b"\0" in content else content.count(b"\n")


def test_files_are_short() -> None:
    """A file that outgrows this has more than one reason to change, be it code, a document or a manifest."""
    long = {str(file.relative_to(ROOT)): _lines(file) for file in _repository_files() if _lines(file) > MOST_LINES}
    assert long.keys() == LONG.keys(), long


def test_the_loop_is_a_page() -> None:
    """It shows why it is exactly once, to somebody who reads it from the top to the end."""
    assert (PACKAGE / "runtime" / "loop.py").read_text(encoding="utf-8").count("\n") < MOST_LINES_OF_THE_LOOP


def test_folders_are_small() -> None:
    """A folder answers one question, with so many modules at most."""
    counts = Counter(path.parent for path in [*FILES, *TESTS])
    assert {str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > MOST_MODULES} == {}


@pytest.mark.parametrize("file", [*FILES, *TESTS], ids=lambda file: str(file.relative_to(ROOT)))
def test_functions_and_classes_are_small(file: Path) -> None:
    """Few parameters, few fields: what needs more is several things."""
    tree = tree_of(file)
    assert _crowded_functions(tree) + _crowded_classes(tree) == []


def test_no_public_name_means_two_things() -> None:
    """A class, function or type is the only one of its name in the whole package."""
    places = defaultdict(list)
    for path in FILES:
        for name in _public_names(path):
            places[name].append(dotted_name(path))
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in ALIKE} == {}


def test_crowds_are_found() -> None:
    """Parameters of every kind count, and fields wherever they are assigned; kernels are left alone."""
    parameters = ", ".join(f"p{n}" for n in range(MOST_PARAMETERS))
    assert _crowded_functions(ast.parse(f"def f(self, {parameters}): ...")) == []
    assert len(_crowded_functions(ast.parse(f"def f({parameters}, *, last): ..."))) == 1
    assert _crowded_functions(ast.parse(f"@kernel\ndef f({parameters}, last): ...")) == []
    declared = "\n".join(f"  f{n}: int" for n in range(MOST_FIELDS))
    assert _crowded_classes(ast.parse(f"class C:\n{declared}")) == []
    assert len(_crowded_classes(ast.parse(f"class C:\n{declared}\n  def m(self): self.one_more = 1"))) == 1
