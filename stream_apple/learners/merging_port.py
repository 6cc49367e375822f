"""What the rest of the package may know of merging: which part of a model is merged, and what merging makes of it.

A system whose models can be merged has a `Merging`; `systems.merging_of` returns it. The mergeable part of a model is
some of its state: rows and sums, as in `LearnerState`. What belongs to the examples that a model has learned, such as
its counts and its losses, is not in it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_apple.errors import ConfigurationError
from stream_apple.learners.port import Learner, LearnerOptions
from stream_apple.learners.state import LearnerState, Rows
from stream_apple.learners.state_digest import state_digest

Parents = Literal["votes", "union"]
"""Which new parents a merged model has: those of most votes, or those of any model."""

Runner = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each argument, as `map` does or in parallel; yields the results in their order."""


class Mergeable(NamedTuple):
    """The mergeable part of a model, in memory.

    state  the arrays themselves, not copies; `sums` is ordered by name
    """

    options: LearnerOptions
    state: LearnerState

    @property
    def sums(self) -> Mapping[str, NDArray[np.generic]]:
        """All of the part except its rows, by name."""
        return self.state.sums

    def read(self, start: int, stop: int, memory: Rows) -> Rows:  # noqa: ARG002  see `ReadableModel`
        """Return views of rows [start, stop)."""
        return {name: array[start:stop] for name, array in self.state.rows.items()}

    def digest(self) -> str:
        """Return a hash, 32 hex digits, of every bit of the part, which is exactly what is adopted."""
        return state_digest(*self.state)


class ReadableModel(Protocol):
    """The mergeable part of a model as a merge reads it: its rows may be compressed."""

    @property
    def options(self) -> LearnerOptions:
        """All that defines the model besides its examples."""

    @property
    def sums(self) -> Mapping[str, NDArray[np.generic]]:
        """All of the part except its rows, by name."""

    def read(self, start: int, stop: int, memory: Rows) -> Rows:
        """Return rows [start, stop), one of the blocks of `block_bounds`; the caller must not change them.

        They may be in `memory`, which has room for a block and may be written over. Several threads may read at the
        same time, each with a memory of its own.
        """


class MergeCounts(NamedTuple):
    """How many monomials had which fate in a merge.

    keys              distinct monomials of all models
    kept              those of them that have a slot in the merged model
    evicted           the others, parents included: there was no slot left for them
    parents_won       nominees that became parents
    parents_lost      nominees that did not, for lack of votes
    parents_retired   earlier parents that retired in more models than kept them
    parents_evicted   parents among the evicted
    degree_clashes    monomials whose degrees differ between models: the smallest is kept
    models_dropped    how many models were left out, as their examples were prepared otherwise
    """

    keys: int
    kept: int
    evicted: int
    parents_won: int
    parents_lost: int
    parents_retired: int
    parents_evicted: int
    degree_clashes: int
    models_dropped: int = 0


class Merged(NamedTuple):
    """The merged model, and the fates of monomials."""

    model: Mergeable
    counts: MergeCounts


class Merging(Protocol):
    """How the models of one system are merged."""

    def mergeable_of(self, learner: Learner) -> Mergeable:
        """Return the mergeable part of a learner: the arrays themselves."""

    def merge(
        self,
        models: Sequence[Learner | ReadableModel],
        *,
        parents: Parents = "votes",
        run: Runner = map,
        parts: int = 1,
    ) -> Merged:
        """Return the merged model; the given models do not change.

        models   at least one, in an order on which all processes that merge them agree; of one model alone a copy is
                 returned, whose nominees are parents
        parents  which new parents stay
        run      calls the function that merges a part of the rows
        parts    into how many parts the rows are divided; the result does not depend on it

        ValueError unless the models' options are equal; ConfigurationError if models of these options can't be merged.
        """

    def adopt(self, learner: Learner, merged: Mergeable) -> None:
        """Replace a learner's mergeable part, in place, by the merged model, bit for bit.

        ValueError for a model of other options.
        """

    def start_of(self, learner: Learner) -> Mergeable:
        """Return a copy of the mergeable part, from which other models can start; its nominees are parents.

        ConfigurationError if no model can start from one of these options.
        """

    def warm_up_merging(self, options: LearnerOptions) -> None:
        """Compile everything that a merge calls, and an adoption."""

    def warm_up_starting(self, options: LearnerOptions) -> None:
        """Compile what a start from another model calls."""


def check_mergeable(options: LearnerOptions) -> None:
    """Raise ConfigurationError if models of these options can't be merged."""
    if because := options.why_not_merged:
        raise ConfigurationError(f"merging models: {because}")


def check_startable(options: LearnerOptions) -> None:
    """Raise ConfigurationError if no other model can start from one of these options."""
    if because := options.why_not_started_from:
        raise ConfigurationError(f"starting from a model: {because}")


def check_alike(options: Sequence[LearnerOptions]) -> None:
    """Raise ValueError if there are no options, or if they differ."""
    if not options:
        raise ValueError("merging models: expected at least one, found none")
    for number, other in enumerate(options[1:], 2):
        first, own = options[0].identity(), other.identity()
        differing = [name for name in sorted(first.keys() | own.keys()) if first.get(name) != own.get(name)]
        if differing:
            found = ", ".join(f"{name} {own.get(name)!r}" for name in differing)
            expected = ", ".join(f"{name} {first.get(name)!r}" for name in differing)
            raise ValueError(
                f"merging models: expected equal options, those of the first ({expected}), "
                f"found {found} in number {number}"
            )
