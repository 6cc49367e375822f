"""A file of examples as a table of attributes: numbers, and categories that one-hot columns are put together to."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.codec.example import Example, Features
from stream_apple.errors import InputFileError
from stream_apple.files import read_examples

Codes = NDArray[np.int32]
"""Of values: 0, 1, ..."""

MOST_COLUMNS = 512
"""A wider file has words for columns: its tuples are too many for what is done here."""
MOST_CLASSES = 64
FEW_VALUES = 20
"""A column of whole numbers with at most so many different ones is a category as it is."""

_DRAW = 20_141  # the seed of the rows that are drawn


class AttributeTable(NamedTuple):
    """`n` examples with `a` attributes, not yet discretised.

    names        of the attributes; of one put together, those of its first and last column
    values       float64[n, a]: numbers, or codes of categories, which are whole and begin at 0
    is_category  bool[a]
    labels       int32[n]: codes of the classes
    classes      the labels as they are in the file, ascending
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    is_category: NDArray[np.bool_]
    labels: Codes
    classes: tuple[float, ...]


def read_attributes(path: Path, rows: int) -> AttributeTable:
    """At most `rows` labelled examples of the file, drawn by a fixed seed, in the file's order.

    What a row leaves out is 0, as in svmlight, and not a missing value. `name=value` of value 1 is a category; columns
    of 0 and 1, one after the other, of which no row has two, become one, whose code 0 is none of them; what else is 0
    everywhere is left out.

    InputFileError for a file that can't be read, or has too many columns, or labels that are no classes.
    """
    entries, labels, columns = _read(path)
    known = np.flatnonzero(~np.isnan(labels))
    if len(known) > rows:
        known = np.sort(np.random.default_rng(_DRAW).choice(known, rows, replace=False))
    classes, codes = np.unique(labels[known], return_inverse=True)
    if not 2 <= len(classes) <= MOST_CLASSES:
        raise InputFileError(f"{path}: expected 2 to {MOST_CLASSES} different labels, found {len(classes)}")
    places = np.full(len(labels), -1)
    places[known] = np.arange(len(known))
    names, dense, is_category = _dense(entries, columns, places, len(known))
    names, dense, is_category = _without_one_hot(names, dense, is_category)
    for column in np.flatnonzero(~is_category):
        found, inverse = np.unique(dense[:, column], return_inverse=True)
        if len(found) <= FEW_VALUES and np.array_equal(found, np.rint(found)):
            dense[:, column], is_category[column] = inverse, True
    return AttributeTable(
        tuple(names), dense, is_category, codes.astype(np.int32), tuple(float(each) for each in classes)
    )


class _Entries(NamedTuple):
    """What is not 0: row, column and value of each."""

    rows: list[int]
    columns: list[int]
    values: list[float]


def _read(path: Path) -> tuple[_Entries, NDArray[np.float64], dict[str, dict[str, int] | None]]:
    """Entries, labels (NaN if there is none), and the columns: of a category, its levels, numbered from 1."""
    entries, labels = _Entries([], [], []), []
    columns: dict[str, dict[str, int] | None] = {}
    places: dict[str, int] = {}
    for number, example in enumerate(read_examples(path)):
        labels.append(np.nan if example.label is None else example.label)
        for name, value in _features(example, path, number):
            attribute, is_level, level = name.partition("=")
            if is_level and value != 1:
                raise InputFileError(f"{path}, example {number + 1}: expected value 1 of {name!r}, found {value:g}")
            if attribute not in places:
                places[attribute] = len(places)
                columns[attribute] = {} if is_level else None
                if len(columns) > MOST_COLUMNS:
                    raise InputFileError(f"{path}: expected at most {MOST_COLUMNS} columns, found more")
            levels = columns[attribute]
            if (levels is None) == bool(is_level):
                raise InputFileError(
                    f"{path}, example {number + 1}: expected {attribute!r} to be a number or a category"
                )
            entries.rows.append(number)
            entries.columns.append(places[attribute])
            entries.values.append(value if levels is None else levels.setdefault(level, len(levels) + 1))
    return entries, np.array(labels, np.float64), columns


def _features(example: Example, path: Path, number: int) -> Iterator[tuple[str, float]]:
    features: Features = example.features
    for name, value in features.items():
        if isinstance(value, dict):
            yield from ((f"{name}^{inner}", amount) for inner, amount in value.items())
        elif isinstance(value, bytes):
            raise InputFileError(f"{path}, example {number + 1}: expected features with names, found packed ones")
        else:
            yield name, value


def _dense(
    entries: _Entries, columns: dict[str, dict[str, int] | None], places: NDArray[np.int64], rows: int
) -> tuple[list[str], NDArray[np.float64], NDArray[np.bool_]]:
    """The table of the rows that have a place, its columns in the order of their names, numbers as numbers."""
    at, column = places[np.array(entries.rows, np.int64)], np.array(entries.columns, np.int64)
    dense = np.zeros((rows, len(columns)))
    chosen = at >= 0
    dense[at[chosen], column[chosen]] = np.array(entries.values)[chosen]
    names = list(columns)
    order = sorted(range(len(names)), key=lambda place: _natural(names[place]))
    is_category = np.array([columns[name] is not None for name in names], np.bool_)
    return [names[place] for place in order], dense[:, order], is_category[order]


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if name.isascii() and name.isdecimal() else (1, 0, name)


def _without_one_hot(
    names: list[str], dense: NDArray[np.float64], is_category: NDArray[np.bool_]
) -> tuple[list[str], NDArray[np.float64], NDArray[np.bool_]]:
    """The table with each group of one-hot columns as one, and without columns that are 0 everywhere."""
    is_bit = ~is_category & ((dense == 0) | (dense == 1)).all(axis=0)
    groups: list[list[int]] = []
    taken = np.zeros(len(dense), np.bool_)
    open_group = False
    for column in range(len(names)):
        ones = dense[:, column] != 0
        if is_bit[column] and open_group and not (taken & ones).any():
            groups[-1].append(column)
            taken |= ones
        else:
            groups.append([column])
            open_group, taken = bool(is_bit[column]), ones
    groups = [group for group in groups if dense[:, group].any()]
    made = np.empty((len(dense), len(groups)))
    for place, group in enumerate(groups):
        made[:, place] = dense[:, group] @ np.arange(1.0, len(group) + 1) if len(group) > 1 else dense[:, group[0]]
    of_category = np.array([len(group) > 1 or bool(is_category[group[0]]) for group in groups], np.bool_)
    titles = [_title([names[column] for column in group]) for group in groups]
    return titles, made, of_category


def _title(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}..{names[-1]}"
