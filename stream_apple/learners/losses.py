"""The losses that learners minimize: what labels each has, and what its scores stand for.

With label y and score s:

    squared   (s - y)^2             s is the expected label; it is clipped to the labels seen so far
    logistic  log(1 + exp(-s * y))  y is -1 or 1; s is the log-odds of 1, within +-LOG_ODDS_BOUND
    softmax   -log p[y]             y is one of k classes, each of which has a score; p is the softmax of the scores

Code that depends on the loss asks its `Loss`. Inside kernels it calls a function of `loss_functions.py`, and passes
`Loss.number`. Nothing else compares losses. The configuration is read before numpy is loaded, so nothing is imported
here.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Loss:
    """A loss function.

    name    in options
    number  by which kernels know it
    labels  what labels are: real numbers; one of two, -1 and 1; or the number of a class
    """

    name: str
    number: int
    labels: Literal["real", "binary", "class"]

    @property
    def real_valued(self) -> bool:
        """Whether labels are real numbers, and a score is the expected label."""
        return self.labels == "real"

    @property
    def binary(self) -> bool:
        """Whether labels are -1 and 1, and a score is the log-odds of 1; a label of 0 is read as -1."""
        return self.labels == "binary"

    @property
    def multiclass(self) -> bool:
        """Whether labels are numbers of classes, and each class has a score."""
        return self.labels == "class"

    def known_labels(self, classes: int) -> tuple[Container[float], str] | None:
        """Return the labels that examples may have, and the same in words; None if any number is a label.

        classes  the number of classes; 0 if this is not the loss of classes
        """
        if self.real_valued:
            return None
        if self.multiclass:
            return range(classes), f"whole numbers from 0 to {classes - 1}"
        return (-1, 0, 1), "labels of 1 or -1 (0 is read as -1)"


SQUARED, LOGISTIC, SOFTMAX = (Loss("squared", 0, "real"), Loss("logistic", 1, "binary"), Loss("softmax", 2, "class"))
LOSSES = {each.name: each for each in (SQUARED, LOGISTIC, SOFTMAX)}
"""Name -> loss."""
