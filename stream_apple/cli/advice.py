"""Advice that `evaluate` and `produce` print once to standard error, on files and options that don't go together."""

import shlex
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stream_apple.cli.output import say
from stream_apple.config.duration import format_duration, longer_epoch
from stream_apple.config.learner_settings import named_namespaces
from stream_apple.core.batch import space_key
from stream_apple.files import MOST_MET, ColumnRoles, TimeLike
from stream_apple.nearest_names import missing

if TYPE_CHECKING:
    from stream_apple.learners.port import LearnerOptions  # which needs numba


def tell_of_times(time_like: TimeLike, remedy: str) -> None:
    """Say on stderr that a column looks like the examples' time, if one does, and what to do about it.

    remedy  the advice, in which `{}` stands for the column's name
    """
    if time_like.name is not None:
        name = time_like.name
        message = f"stream-apple: {name!r} looks like the time of each example, and is a feature like any other: "
        say(message + remedy.replace("{}", shlex.quote(name)), err=True)


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


def tell_of_idle_patterns(roles: ColumnRoles) -> None:
    """Say on stderr which patterns of a mapping no field has matched, of all that were read: a mistyped one is idle."""
    if roles.mapping is None or roles.met is None or len(roles.met) >= MOST_MET:
        return
    for setting, pattern in roles.mapping.idle_patterns(roles.met):
        say(
            f"stream-apple: input.{setting}: {pattern!r} has no effect: expected a feature whose path it is, or "
            f"matches, found {missing(pattern, sorted(roles.met))}",
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
