"""Labels that are one of several classes."""

from dataclasses import dataclass
from typing import ClassVar

from stream_apple.core.learner.options.bounds import IntegerBounds

CLASSES = IntegerBounds(2, 1000)


@dataclass(frozen=True)
class MultiClass:
    """How many classes there are.

    classes  labels are whole numbers from 0 to classes - 1 (loss softmax); 0 for the other losses
    """

    FIRST: ClassVar[dict[str, object]] = {"classes": 0}

    classes: int = 0
