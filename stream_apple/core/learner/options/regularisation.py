"""How weights are held small, and by which rule they descend."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from stream_apple.core.learner.options.bounds import NumberBounds

Descent = Literal["adaptive", "plain"]

L2 = NumberBounds(0, 1000)
L1 = NumberBounds(0, 1000)
_STAMP_BYTES = 8


@dataclass(frozen=True)
class Regularisation:
    """Options of regularisation; out of their bounds they raise ValueError.

    descent  adaptive: the normalised, adaptive update; plain: gradient descent with steps of 1 / (l2 * (t + 1)), for
             which Theorem 1 of Agarwal et al. 2014 holds: there is no learning rate then, and `l2` has to be above 0.
             For files: of weights in the table only the order means something
    l2       each step shrinks all weights but the constant's by l2 times its rate (`kernels/decay.py`); 0: not. Of
             plain descent: the mean loss + l2 * |w|^2 / 2 is minimised, the constant's weight included
    l1       each step draws all weights but the constant's towards 0, by l1 times its rate; 0: not
    """

    FIRST: ClassVar[dict[str, object]] = {"descent": "adaptive", "l2": 0.0, "l1": 0.0}

    descent: Descent = "adaptive"
    l2: float = 0.0
    l1: float = 0.0

    def _check_regularisation(self) -> None:
        if self.descent not in get_args(Descent):
            raise ValueError(f"Options.descent: expected one of {', '.join(get_args(Descent))}, found {self.descent!r}")
        for name, bounds in (("l2", L2), ("l1", L1)):
            if (value := getattr(self, name)) != 0.0 and not bounds.hold(value):
                raise ValueError(f"Options.{name}: expected 0, or {bounds}, found {value!r}")

    def _stamps_bytes(self, *, mixed: bool) -> int:
        """Of a slot: what `kernels/decay.py` has beside it."""
        return (5 if mixed else 2) * _STAMP_BYTES if self.l1 > 0.0 else 0
