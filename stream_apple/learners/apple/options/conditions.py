"""What an option has to be for a row of a table to hold; the tables are those of defaults and of contradictions."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from stream_apple.learners.declaration import IntegerBounds, NumberBounds


@dataclass(frozen=True)
class Except:
    """Allows every value but this one."""

    value: object

    def hold(self, value: object) -> bool:
        """Return whether `value` is another one."""
        return value != self.value

    def __str__(self) -> str:
        return f"other than {in_words(self.value)}"


Allowed: TypeAlias = tuple[object, ...] | IntegerBounds | NumberBounds | Except
Where: TypeAlias = dict[str, Allowed]
"""Option -> the values of which it has to have one."""


class Condition(NamedTuple):
    """Holds if an option has one of these values."""

    option: str
    values: Allowed

    def holds(self, value: object) -> bool:
        """Return whether this value, a finite number or not, is one of them."""
        if isinstance(self.values, Except):
            return self.values.hold(value)
        if isinstance(self.values, IntegerBounds | NumberBounds):
            return isinstance(value, int | float) and self.values.hold(value)
        return value in self.values

    def holds_of(self, options: object) -> bool:
        """Return whether the option has one of the values in these options."""
        return self.holds(getattr(options, self.option))

    def spelled(self) -> str:
        """Return the values in words."""
        if isinstance(self.values, IntegerBounds | NumberBounds | Except):
            return str(self.values)
        *first, last = map(in_words, self.values)
        return f"{', '.join(first)} or {last}" if first else last


def conditions(given: Where) -> tuple[Condition, ...]:
    """Return a condition for each option that is named."""
    return tuple(Condition(*each) for each in given.items())


def in_words(value: object) -> str:
    """Return an option's value in words."""
    if value == ():
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value) if value != "" else "''"
