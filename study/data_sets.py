"""The files of a folder that are data sets, and what its manifest says about them.

The manifest is TOML with a table for each set that needs one, named as the file without its suffixes:

    ["cal-housing"]
    label_range = [-1, 1]     # labels of a regression are scaled to this range
    rows = 10000              # at most so many, fewer than the whole study's
    task = "regression"       # or "binary"; by default, binary if there are exactly two labels
    paper = "cal_housing"     # its name in the table of the paper's results
    without = ["cubic"]       # methods that would take too long
    skip = true
"""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from stream_apple.errors import ConfigurationError
from stream_apple.untrusted import UnreadableFileError, read_file
from study.methods import METHODS
from study.tasks import Problem

MANIFEST = "manifest.toml"
SUFFIXES = tuple(f".{kind}{packed}" for kind in ("svm", "vw", "jsonl", "msgpack") for packed in ("", ".gz"))


class DataSet(NamedTuple):
    """A data set's file, and its entries in the manifest; None where the file, or the study, decides."""

    name: str
    path: Path
    problem: Problem | None = None
    label_range: tuple[float, float] | None = None
    rows: int | None = None
    paper: str | None = None
    without: tuple[str, ...] = ()


class FoundSets(NamedTuple):
    """The data sets of a folder, by name, without those that are skipped.

    absent  the names of sets that the manifest describes, and does not skip, and that have no file
    """

    sets: list[DataSet]
    absent: list[str]


def find_data_sets(folder: Path, manifest: Path | None = None) -> FoundSets:
    """Find the data sets of a folder, and those that its manifest describes but the folder lacks.

    manifest  by default, `manifest.toml` of the folder, if it is there

    ConfigurationError for a folder without data sets, for two files of one name, and for a manifest that is not as
    described above.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"expected a folder of data sets, found none at {folder}")
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        suffix = next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), None)
        if suffix is None or not path.is_file():
            continue
        name = path.name.removesuffix(suffix)
        if name in files:
            raise ConfigurationError(f"expected one file a data set, found {files[name].name} and {path.name}")
        files[name] = path
    if manifest is None and (folder / MANIFEST).exists():
        manifest = folder / MANIFEST
    tables = {} if manifest is None else _tables(manifest)
    described = {name: folder / name for name in tables} | files
    found = [_data_set(name, path, tables.get(name, {}), f"{manifest}, [{name}]") for name, path in described.items()]
    sets = sorted(each for each in found if each is not None and each.name in files)
    absent = sorted(each.name for each in found if each is not None and each.name not in files)
    if not sets:
        raise ConfigurationError(f"expected files *{', *'.join(SUFFIXES)} in {folder}, found none to be used")
    return FoundSets(sets, absent)


def _tables(manifest: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_file(manifest).decode("utf-8-sig"))
    except UnreadableFileError as error:
        raise ConfigurationError(str(error)) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{manifest}: expected a readable file, found: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{manifest}: expected TOML, found: {error}") from None


def _data_set(name: str, path: Path, table: object, where: str) -> DataSet | None:
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{where}: expected a table, found {table!r}")
    if unknown := [key for key in table if key not in _ENTRIES]:
        raise ConfigurationError(
            f"{where}: expected task, label_range, rows, paper, without or skip, found {', '.join(unknown)}"
        )
    for key, value in table.items():
        expected, is_right = _ENTRIES[key]
        if not is_right(value):
            raise ConfigurationError(f"{where}, {key}: expected {expected}, found {value!r}")
    problem, label_range = table.get("task"), table.get("label_range")
    if problem == "binary" and label_range is not None:
        raise ConfigurationError(f"{where}: expected label_range for a regression only, found task = 'binary'")
    if table.get("skip"):
        return None
    scaled = None if label_range is None else (float(label_range[0]), float(label_range[1]))
    without = tuple(table.get("without", ()))
    return DataSet(name, path, problem, scaled, table.get("rows"), table.get("paper"), without)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_range(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(_is_integer(each) or isinstance(each, float) for each in value)
        and value[0] < value[1]
    )


_ENTRIES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "skip": ("true or false", lambda value: isinstance(value, bool)),
    "task": (f"one of {', '.join(get_args(Problem))}", lambda value: value in get_args(Problem)),
    "label_range": ("two numbers, the lower first", _is_range),
    "rows": ("a whole number of at least 10", lambda value: _is_integer(value) and value >= 10),
    "paper": ("a name", lambda value: isinstance(value, str)),
    "without": (
        f"a list of {', '.join(METHODS)}",
        lambda value: isinstance(value, list) and all(each in METHODS for each in value),
    ),
}
"""Key of a set's table -> what is expected there, and whether a value is that."""
