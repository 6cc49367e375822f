"""Between which numbers the value of an option lies, and how that is told."""

from typing import NamedTuple


class IntegerBounds(NamedTuple):
    """The integers from `low` to `high`, both included."""

    low: int
    high: int

    def hold(self, value: float) -> bool:
        """Whether the value lies within."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"an integer from {self.low} to {self.high}"


class NumberBounds(NamedTuple):
    """The numbers above `above`, which is excluded, and up to `high`, which is included."""

    above: float
    high: float

    def hold(self, value: float) -> bool:
        """Whether the value lies within; NaN does not."""
        return self.above < value <= self.high

    def __str__(self) -> str:
        return f"a number above {self.above:g} and at most {self.high:g}"
