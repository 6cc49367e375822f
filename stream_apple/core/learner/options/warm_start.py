"""From where scores start, before weights have been learned."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

WarmStart = Literal["none", "naive_bayes"]


@dataclass(frozen=True)
class WarmStartOptions:
    """Options of the start; out of their bounds they raise ValueError.

    warm_start  none: at 0; naive_bayes: at naive Bayes by the examples counted so far, over features with methods apple
                and linear, over pairs with quadratic, over triples with cubic, over the tuples with tuples; what is
                learned is added. In a mixture the linear predictors start at 0
    """

    FIRST: ClassVar[dict[str, object]] = {"warm_start": "none"}

    warm_start: WarmStart = "none"

    def _check_warm_start(self) -> None:
        choices = get_args(WarmStart)
        if self.warm_start not in choices:
            raise ValueError(f"Options.warm_start: expected one of {', '.join(choices)}, found {self.warm_start!r}")
