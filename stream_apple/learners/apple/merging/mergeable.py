"""The part of a model that can be merged, and which models have one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stream_apple.errors import ConfigurationError
from stream_apple.learners.apple.learner import as_apple, is_of_preparation
from stream_apple.learners.apple.merging.stacks import ReadableTable
from stream_apple.learners.apple.merging.totals import MERGED_SUMS, Sums
from stream_apple.learners.apple.options import Options, why_not_merged, why_not_started_from
from stream_apple.learners.apple.state.table import Table
from stream_apple.learners.port import Learner as Port
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.state import LearnerState
from stream_apple.learners.state_digest import state_digest


class Mergeable(NamedTuple):
    """The mergeable part of a model: its table, the sums in `MERGED_SUMS`, and how its examples are prepared."""

    options: Options
    table: Table
    sums: Sums

    def digest(self) -> str:
        """Return a hash, 32 hex digits, of the mergeable part, which is exactly what is adopted."""
        return state_digest(*self.state)

    @property
    def state(self) -> LearnerState:
        """The mergeable part by name: the arrays themselves."""
        return LearnerState(
            self.table.rows, {name: self.sums[name] for name in sorted(self.sums)} | self.table.constant
        )


class ReadableModel(NamedTuple):
    """The mergeable part of a model as `merge` reads it: its table may be compressed."""

    options: Options
    table: ReadableTable
    sums: Sums


def readable_of(model: Port | Mergeable) -> ReadableModel:
    """Return a model that is in memory, as `merge` reads it: the arrays themselves."""
    return ReadableModel(*(model if isinstance(model, Mergeable) else mergeable_of(model)))


def mergeable_of(learner: Port) -> Mergeable:
    """Return the mergeable part of a learner: the arrays themselves."""
    own = as_apple(learner)
    return mergeable_from(own.options, own.table, own.sums)


def mergeable_from(options: Options, table: Table, sums: Mapping[str, Any]) -> Mergeable:
    """Return the mergeable part of a model; `sums` has all arrays of `Learner.sums`, and perhaps more."""
    kept = {name: array for name, array in sums.items() if name in MERGED_SUMS or is_of_preparation(name)}
    return Mergeable(options, table, kept)


def merged_digest(learner: Port) -> str:
    """Return `Mergeable.digest` of the mergeable part of a learner."""
    return mergeable_of(learner).digest()


def check_mergeable(options: LearnerOptions) -> None:
    """Raise ConfigurationError if models of these options can't be merged."""
    if because := why_not_merged(options):
        raise ConfigurationError(f"merging models: {because}")


def check_startable(options: LearnerOptions) -> None:
    """Raise ConfigurationError if no other model can start from one of these options."""
    if because := why_not_started_from(options):
        raise ConfigurationError(f"starting from a model: {because}")


def check_alike(options: Sequence[LearnerOptions]) -> None:
    """Raise ValueError if there are no options, or if they differ."""
    if not options:
        raise ValueError("merging models: expected at least one, found none")
    for number, other in enumerate(options[1:], 2):
        first, own = options[0].identity(), other.identity()
        differing = [name for name in sorted(first.keys() | own.keys()) if first.get(name) != own.get(name)]
        if differing:
            found = ", ".join(f"{name} {getattr(other, name)!r}" for name in differing)
            expected = ", ".join(f"{name} {getattr(options[0], name)!r}" for name in differing)
            raise ValueError(
                f"merging models: expected equal options, those of the first ({expected}), "
                f"found {found} in number {number}"
            )
