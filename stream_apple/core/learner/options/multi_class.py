"""Labels that are one of several classes."""

from dataclasses import dataclass
from typing import ClassVar

from stream_apple.core.learner.options.bounds import IntegerBounds

CLASSES = IntegerBounds(2, 1000)

_WITH_CLASSES: dict[str, tuple[object, ...]] = {
    "method": ("apple", "linear", "quadratic", "cubic"),
    "selection": ("weight", "evidence"),
    "descent": ("adaptive",),
    "l1": (0.0,),
    "l2": (0.0,),
    "warm_start": ("none",),
    "collisions": ("evict",),
}
"""What goes with several classes; everything else is made for labels that are numbers, or one of two."""


@dataclass(frozen=True)
class MultiClass:
    """How many classes there are; ValueError out of the bounds, and with another loss than softmax.

    classes  labels are whole numbers from 0 to classes - 1 (loss softmax); 0 for the other losses
    """

    FIRST: ClassVar[dict[str, object]] = {"classes": 0}

    classes: int = 0

    def _check_classes(self, loss: str) -> None:
        if loss != "softmax":
            if self.classes:
                raise ValueError(f"Options.classes: expected 0 with loss {loss}, found {self.classes!r}")
            return
        if not CLASSES.hold(self.classes):
            raise ValueError(f"Options.classes: expected {CLASSES} with loss softmax, found {self.classes!r}")
        for name, choices in _WITH_CLASSES.items():
            if (found := getattr(self, name, choices[0])) not in choices:
                expected = " or ".join(map(str, choices))
                raise ValueError(f"Options.{name}: expected {expected} with loss softmax, found {found!r}")
