"""The interface of an experiment: it is run on data sets, and yields findings, which are tables and perhaps curves."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from study.data_sets import DataSet

TableCell = str | int | float | bool | None
"""What a cell of a table holds; None is shown as a dash."""


class Inquiry(NamedTuple):
    """What an experiment is asked.

    sets   name -> file, those that it is to be done on, in the order in which they are shown
    out    an existing folder for what it keeps between runs; findings are written by others
    seeds  how many repetitions; the first has seed 0
    rows   at most so many of a set
    tell   called with a phase, how much of it is done, and how much there is, whenever that changes
    """

    sets: Mapping[str, DataSet]
    out: Path
    seeds: int
    rows: int
    tell: Callable[[str, float, float], None] = lambda _phase, _done, _total: None


class PlotLine(NamedTuple):
    """A line of a figure: y over x. One of a single point is drawn as a level, across the whole figure."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


class Plot(NamedTuple):
    """Describes a figure with one or more curves."""

    x_label: str
    y_label: str
    curves: tuple[PlotLine, ...]


class StudyFinding(NamedTuple):
    """One result of an experiment.

    name      of its files, a word of lower-case letters, digits and hyphens; different for each of an experiment
    columns   names; the first column is text, the others are mostly numbers
    rows      cells, as many as columns
    expected  what the source says of it, with its figures, to be read beside the table; "" if it says nothing
    plot      the figure that belongs to it
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    expected: str = ""
    plot: Plot | None = None


class Experiment(NamedTuple):
    """An experiment.

    run       does it; findings come as soon as they are there
    sets      those it is made for, by name: what it is done on if no others are named. Empty: it needs none
    requires  packages that it imports, beyond those of the product
    """

    run: Callable[[Inquiry], Iterator[StudyFinding]]
    sets: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()


def slug(name: str) -> str:
    """Return the name of a data set as a part of a finding's."""
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in name.lower())
