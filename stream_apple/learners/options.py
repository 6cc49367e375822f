"""The options of all systems, by the name of the system: their declarations, and how options are made of values.

The configuration, the command line, and the library are made of the declarations. A worker reads its configuration
before its heavy imports, so nothing here may import numpy or numba.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stream_apple.learners.apple.options import ALL_NAMESPACES, CLASSES, DECLARED, DeclaredOptions, Options
from stream_apple.learners.declaration import Declaration, IntegerBounds, NumberBounds
from stream_apple.learners.hashed.options import DECLARED as HASHED_DECLARED
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.tuples.options import TUPLE_DECLARED, DeclaredTupleOptions, TupleOptions

if TYPE_CHECKING:
    from stream_apple.learners.port import LearnerOptions  # which needs numpy

__all__ = [
    "ALL_NAMESPACES",
    "CLASSES",
    "SYSTEMS",
    "Declaration",
    "IntegerBounds",
    "NumberBounds",
    "System",
    "SystemName",
]

SystemName = Literal["apple", "tuples", "hashed"]


class System(NamedTuple):
    """What a system's options are.

    new_options  makes options of values by name; ValueError for values that are out of bounds, or contradict each other
    declared     name -> declaration, in the order in which they are shown
    documented   the class that has a docstring below each option
    """

    new_options: Callable[..., "LearnerOptions"]
    declared: Mapping[str, Declaration]
    documented: type[Any]

    def in_section(self, section: str) -> dict[str, Declaration]:
        """Return the declarations of the options that are settings of this section of the configuration."""
        return {name: each for name, each in self.declared.items() if each.option.section == section}


SYSTEMS: Mapping[SystemName, System] = {
    "apple": System(Options, DECLARED, DeclaredOptions),
    "tuples": System(TupleOptions, TUPLE_DECLARED, DeclaredTupleOptions),
    "hashed": System(HashedOptions, HASHED_DECLARED, HashedOptions),
}
