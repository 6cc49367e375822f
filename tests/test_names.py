"""A public name means one thing in the whole package."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from support.source_files import FILES, dotted_name, tree_of

ALIKE = {
    "AppleClassifier": "the interfaces of scikit-learn and of River have it under this name",
    "AppleRegressor": "the interfaces of scikit-learn and of River have it under this name",
    "command": "every module of `cli` has its click command under this name",
    "Learner": "the port says what a learner is, and a system has the class that is one",
    "parse_line": "every format of `files` that has lines has its function under this name",
}
"""Public names that several modules have on purpose."""


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


def test_no_public_name_means_two_things() -> None:
    """A class, function or type is the only one of its name in the whole package."""
    places = defaultdict(list)
    for path in FILES:
        for name in _public_names(path):
            places[name].append(dotted_name(path))
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in ALIKE} == {}
