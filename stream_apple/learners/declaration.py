"""The declaration of an option, and the check of its value.

An option is a field of a dataclass: `bits: Annotated[int | None, Option(...)] = None`, with a docstring below it. The
section `learner` of the configuration, its reference page and the options of `stream-apple evaluate` are made of these
declarations too.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from types import NoneType
from typing import Any, ClassVar, NamedTuple, Self, cast, get_args

from stream_apple.learners.losses import LOSSES, Loss

_NUMBERS: dict[Any, Any] = {int: Integral, float: Real}
"""The kinds of numbers, and the types that are of a kind, those of NumPy included."""


class IntegerBounds(NamedTuple):
    """The integers from `low` to `high`, both included."""

    low: int
    high: int

    def hold(self, value: float) -> bool:
        """Return whether the value lies within the bounds."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"an integer from {self.low} to {self.high}"


class NumberBounds(NamedTuple):
    """The numbers from `low`, which is excluded unless `closed`, to `high`, which is included."""

    low: float
    high: float
    closed: bool = False

    def hold(self, value: float) -> bool:
        """Return whether the value lies within the bounds; NaN does not."""
        return self.low < value <= self.high or (self.closed and value == self.low)

    def __str__(self) -> str:
        low, high = f"{self.low:g}", f"{self.high:g}"
        return f"a number from {low} to {high}" if self.closed else f"a number above {low} and at most {high}"


@dataclass(frozen=True)
class Option:
    """The facts of an option's declaration, besides its name, type and default.

    help        its text in `evaluate --help`
    bounds      of the number, or of each number of a table
    expert      whether only few users need it
    section     the section of the configuration that has it
    unit        of the number
    pattern     the regular expression that a text in the configuration has to match
    expected    what a text or a table may be, in words
    parse       makes a table of a text
    metavar     the name of the value in `evaluate --help`
    """

    help: str
    bounds: IntegerBounds | NumberBounds | None = None
    expert: bool = False
    section: str = "learner"
    unit: str = ""
    pattern: str = ""
    expected: str = ""
    parse: Callable[[str], dict[str, int]] | None = None
    metavar: str | None = None


class Declaration(NamedTuple):
    """An option with its name, its values' type, and its default: None if that depends on other options."""

    name: str
    kind: Any
    default: Any
    option: Option

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts that the option's value may be; () if it is not a choice between texts."""
        found = get_args(self.kind)
        return found if all(isinstance(each, str) for each in found) else ()

    def checked(self, value: Any) -> Any:  # noqa: ANN401  an option's value has its own type
        """Return the value, of NumPy's types as Python's; ValueError for another type, choice, or out of bounds."""
        if self.choices:
            expected, holds = f"one of {', '.join(self.choices)}", value in self.choices
        elif self.option.parse is not None:
            return value
        elif self.kind in _NUMBERS:
            bounds = self.option.bounds
            assert bounds is not None, self.name
            holds = isinstance(value, _NUMBERS[self.kind]) and not isinstance(value, bool) and bounds.hold(value)
            expected = str(bounds)
        elif self.kind is bool:
            expected, holds = "True or False", isinstance(value, bool) or type(value).__name__ == "bool"  # of NumPy
        else:
            expected, holds = self.option.expected, isinstance(value, self.kind)
        if not holds:
            raise ValueError(f"{self.name}: expected {expected}, found {value!r}")
        plain = {int, float, bool}
        return self.kind(value) if self.kind in plain and type(value) not in plain else value


class SystemOptions:
    """What a system's options say unless it says otherwise: labels have one score, and examples are as they are."""

    system: ClassVar[str]
    LEAST_BITS: ClassVar[int] = 8
    loss: Any
    classes: Any = 0
    pending_labels: Any = 0
    ngrams: Any = ()

    @property
    def objective(self) -> Loss:
        """The loss that is minimized, found by its name."""
        return LOSSES[self.loss]

    @property
    def name(self) -> str:
        """The name of what learns: the system's, or that of its method if it has several."""
        return str(getattr(self, "method", self.system))

    @property
    def mixed(self) -> bool:
        """Whether a mixture of predictors is published."""
        return False

    @property
    def why_not_merged(self) -> str:
        """Why models of these options can't be merged: expected, found, reason; "" if they can."""
        return self.why_not_started_from

    @property
    def why_not_started_from(self) -> str:
        """Why no model can start from one of these options, likewise; "" if one can."""
        return f"expected learner.system = apple, found {self.system}: only its models have a common part"

    def smallest(self) -> Self:
        """Return the same options with the smallest table, whose size changes no code."""
        changed: Any = {"bits": self.LEAST_BITS}
        return cast("Self", replace(cast("Any", self), **changed))

    @property
    def longest_ngram(self) -> int:
        """The size of the longest n-gram; 1 without n-grams."""
        return 1

    def ngrams_of_namespaces(self) -> tuple[dict[str, int], int]:
        """Return the size of n-grams by namespace, and the size in all other namespaces: none, and 1."""
        return {}, 1


def declarations_of(declaring: type) -> tuple[Declaration, ...]:
    """Return the declarations of this dataclass's fields, in their order."""
    return tuple(
        Declaration(field.name, _without_none(get_args(field.type)[0]), field.default, get_args(field.type)[1])
        for field in fields(declaring)
    )


def _without_none(kind: Any) -> Any:  # noqa: ANN401  any type
    given = [each for each in get_args(kind) if each is not NoneType]
    return given[0] if NoneType in get_args(kind) else kind
