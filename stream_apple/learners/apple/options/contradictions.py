"""Which options contradict each other: one table, which the check walks and the documentation shows.

Bounds of single options are in their declarations.
"""

from collections.abc import Mapping
from typing import NamedTuple

from stream_apple.learners.apple.options.declared_options import CLASSES, DECLARED, DEGREES
from stream_apple.learners.declaration import IntegerBounds

_SPOKEN = frozenset({"method", "loss"})  # options that messages name without "=": "method linear"


class Contradiction(NamedTuple):
    """A row of the table: if `option` has one of `values`, each of `demanded` must have one of its values.

    demanded  option -> the values that it may have
    because   why, for the documentation
    """

    option: str
    values: tuple[object, ...]
    demanded: Mapping[str, tuple[object, ...] | IntegerBounds]
    because: str

    def refusal(self, options: object) -> str | None:
        """Return the fault in these options, by name; None if they do not violate this row."""
        if (given := getattr(options, self.option)) not in self.values:
            return None
        for name, allowed in self.demanded.items():
            found = getattr(options, name)
            if not (allowed.hold(found) if isinstance(allowed, IntegerBounds) else found in allowed):
                named = f"{self.option} {given}" if self.option in _SPOKEN else f"{self.option} = {in_words(given)}"
                return f"{name}: expected {spelled(allowed)} with {named}, found {found!r}"
        return None


def spelled(allowed: tuple[object, ...] | IntegerBounds) -> str:
    """Return in words what an option may be."""
    if isinstance(allowed, IntegerBounds):
        return str(allowed)
    *first, last = map(in_words, allowed)
    return f"{', '.join(first)} or {last}" if first else last


def in_words(value: object) -> str:
    """Return an option's value as the configuration has it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def refuse_contradictions(options: object) -> None:
    """Raise ValueError for the first row that these options violate; each is within its own bounds."""
    for row in CONTRADICTIONS:
        if (refusal := row.refusal(options)) is not None:
            raise ValueError(refusal)


_FIXED = ("linear", "quadratic", "cubic")
_PAPER = {name: (each.default,) for name, each in DECLARED.items() if each.option.section == "learner.paper"}

CONTRADICTIONS: tuple[Contradiction, ...] = (
    Contradiction("method", _FIXED, {"mixture": (False,)}, "the mixture is of apple's predictors"),
    Contradiction("method", _FIXED, {"max_degree": (DEGREES.high,)}, "the method says which products are learned"),
    Contradiction("mixture", (True,), _PAPER, "they are of the paper's own algorithm"),
    Contradiction(
        "mixture",
        (False,),
        {"max_products": (DECLARED["max_products"].default,), "drift": ("ignore",)},
        "what parents earn is measured in a mixture, and what a restart does is made for one",
    ),
    Contradiction("mergeable", (True,), {"drift": ("ignore",)}, "a model that restarts would count for nothing"),
    Contradiction("loss", ("squared", "logistic"), {"classes": (0,)}, "classes are those of softmax"),
    Contradiction("loss", ("softmax",), {"classes": CLASSES}, "labels are whole numbers below it"),
    Contradiction("loss", ("softmax",), {"selection": ("weight",)}, "residuals are kept of one score"),
    Contradiction(
        "loss",
        ("squared", "softmax"),
        {"steps": ("adaptive",)},
        "the theorem needs a loss whose first two derivatives are at most 1",
    ),
)
"""The rows in the order in which they are checked: of several faults the first is reported."""
