"""The source files of the package, and of the study next to it, for tests about their shape."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "stream_apple"
FILES = sorted(PACKAGE.rglob("*.py"))
STUDY_FILES = sorted((ROOT / "study").rglob("*.py"))


def part_of(path: Path) -> str:
    """The part of the package that a file is in, such as `stream`."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def dotted_name(path: Path) -> str:
    """The name of a file as a module below the package, such as `stream.snapshots.codec`."""
    names = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" and len(names) > 1 else names)


@cache
def tree_of(path: Path) -> ast.Module:
    """The file, parsed; all tests of a process look at one tree, so none may change it."""
    return ast.parse(path.read_text(encoding="utf-8"))
