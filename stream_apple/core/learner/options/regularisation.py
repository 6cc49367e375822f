"""How weights are held small, and by which rule they descend."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from stream_apple.core.learner.options.bounds import NumberBounds

Descent = Literal["adaptive", "plain"]

L2 = NumberBounds(0, 1000)


@dataclass(frozen=True)
class Regularisation:
    """Options of regularisation; out of their bounds they raise ValueError.

    descent  adaptive: the normalised, adaptive update; plain: gradient descent with steps of 1 / (l2 * (t + 1)), for
             which Theorem 1 of Agarwal et al. 2014 holds: there is no learning rate then, and `l2` has to be above 0.
             For files: of weights in the table only the order means something
    l2       of plain descent: the mean loss + l2 * |w|^2 / 2 is minimised
    """

    FIRST: ClassVar[dict[str, object]] = {"descent": "adaptive", "l2": 0.0}

    descent: Descent = "adaptive"
    l2: float = 0.0

    def _check_regularisation(self, *, mixed: bool, logistic: bool) -> None:
        if self.descent not in get_args(Descent):
            raise ValueError(f"Options.descent: expected one of {', '.join(get_args(Descent))}, found {self.descent!r}")
        if self.descent == "adaptive":
            if self.l2 != 0.0:
                raise ValueError(f"Options.l2: expected 0 with descent = adaptive, found {self.l2!r}")
            return
        if not L2.hold(self.l2):
            raise ValueError(f"Options.l2: expected {L2} with descent = plain, found {self.l2!r}")
        if mixed:
            raise ValueError("Options.descent: expected adaptive with combine = mix, found 'plain'")
        if not logistic:  # the theorem needs a loss whose first two derivatives are at most 1
            raise ValueError("Options.descent: expected adaptive with loss squared, found 'plain'")
