"""Advice that `evaluate` and `produce` print once to standard error, on files and options that don't go together."""

import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stream_apple.cli.output import say
from stream_apple.config.duration import format_duration, longer_epoch
from stream_apple.config.learner_settings import named_namespaces
from stream_apple.core.batch import space_key
from stream_apple.errors import InputFileError
from stream_apple.files import FileNotes, FileShape, read_examples
from stream_apple.files.shape import in_options
from stream_apple.nearest_names import missing
from stream_apple.records.census import LOOKED_AT, spelled_number_hint, table_of
from stream_apple.records.mapping import InputMapping
from stream_apple.records.weights import WeightScale

if TYPE_CHECKING:
    from stream_apple.learners.port import LearnerOptions  # which needs numba


def tell_of_files(shape: FileShape) -> None:
    """Say on stderr what there is to say about the files that were read by this shape."""
    notes = shape.notes
    if notes is None:
        return
    for text in notes.texts:
        say(f"stream-apple: {text}", err=True)
    if notes.census is None:
        return
    for path in notes.census.spelled_numbers():
        say(in_options(f"stream-apple: {path}: {spelled_number_hint(shlex.quote(path))}"), err=True)
    _tell_of_idle_patterns(notes.census.mapper.mapping, notes.met)


def explain_fields(files: Sequence[Path], shape: FileShape) -> None:
    """Print what each field of the first records becomes; InputFileError for the first that can't be read."""
    notes = FileNotes()
    shape = shape._replace(notes=notes)
    try:
        for file in files:
            for _ in islice(read_examples(file, shape), LOOKED_AT):
                pass
    finally:
        # Also of records that can't be read: the table may say why.
        if notes.census is not None:
            say("\n".join(in_options(line) for line in table_of(list(notes.census.facts()))))
    for text in notes.texts:
        say(f"stream-apple: {text}", err=True)
    if notes.census is None:
        raise InputFileError("expected files whose fields have names, such as CSV or JSON lines, found none")


def tell_of_times(shape: FileShape, remedy: str) -> None:
    """Say on stderr that a field looks like the examples' time, if one does, and what to do about it.

    remedy  the advice, in which `{}` stands for the field's path, and `{length}` for that of an epoch
    """
    census = None if shape.notes is None else shape.notes.census
    for path, clocked in [] if census is None else [*census.like_times().items()][:1]:
        message = f"stream-apple: {path!r} looks like the time of each example, and is a feature like any other: "
        advice = remedy.replace("{length}", "1h" if clocked else "1d").replace("{}", shlex.quote(path))
        say(message + advice, err=True)


def tell_of_weights(weights: NDArray[np.float64]) -> None:
    """Say on stderr that the examples' weights are far from 1, if they are: that scales each step of the learner."""
    scale = WeightScale()
    scale.add(weights[:LOOKED_AT].tolist())
    if scale.hint:
        say(f"stream-apple: {scale.hint}", err=True)


def tell_of_absent_namespaces(options: "LearnerOptions", spaces: NDArray[np.uint64]) -> None:
    """Say on stderr which namespaces of the options no example has: a mistyped name changes nothing.

    spaces  the keys of the features' namespaces, as in `Batch`
    """
    there = set(np.unique(spaces).tolist())
    for setting, name in named_namespaces(options):
        option = f"--{setting.replace('_', '-')}"
        if space_key(name) not in there:
            say(
                f"stream-apple: no example has a feature in the namespace {name!r}, so {option} has no effect there: "
                f"a namespace is a map within the features, or what follows | in Vowpal Wabbit text",
                err=True,
            )


def _tell_of_idle_patterns(mapping: InputMapping, met: set[str]) -> None:
    """Say on stderr which patterns of a mapping no field has matched, of all that were read: a mistyped one is idle."""
    for setting, pattern in mapping.idle_patterns(met):
        say(
            f"stream-apple: --{setting}: {pattern!r} has no effect: expected a feature whose path it is, or matches, "
            f"found {missing(pattern, sorted(met))}",
            err=True,
        )


def tell_of_short_epochs(length_ms: int, examples: int, epochs: int, setting: str) -> None:
    """Say on stderr that epochs are too short for the pace of the examples, if they are.

    setting  the option that sets their length, in which `{}` stands for a better value
    """
    better = longer_epoch(length_ms, examples, epochs)
    if better is not None:
        say(
            f"stream-apple: {epochs:,} epochs of {format_duration(length_ms)} have {examples / epochs:.0f} examples "
            f"each: most of the time is spent at their ends, where a model grows, and little is gained by it; try "
            f"{setting.replace('{}', format_duration(better))}",
            err=True,
        )
