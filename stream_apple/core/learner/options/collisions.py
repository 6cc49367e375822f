"""What becomes of features for which the table has no room."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

Collisions = Literal["evict", "share"]


@dataclass(frozen=True)
class Collision:
    """The option of collisions; a contradiction raises ValueError.

    collisions  evict: a slot belongs to one feature, known by 64 bits, and the least useful makes room; share: the
                hashing trick, 2^bits weights without keys, features of equal hash being one feature. For methods linear
                and quadratic
    """

    FIRST: ClassVar[dict[str, object]] = {"collisions": "evict"}

    collisions: Collisions = "evict"

    def _check_collisions(self) -> None:
        choices = get_args(Collisions)
        if self.collisions not in choices:
            raise ValueError(f"Options.collisions: expected one of {', '.join(choices)}, found {self.collisions!r}")
        if self.collisions == "evict":
            return
        taken: dict[str, tuple[object, ...]] = {
            "method": ("linear", "quadratic"),
            "descent": ("adaptive",),
            "selection": ("weight",),
            "warm_start": ("none",),
        }
        if getattr(self, "method", "linear") == "quadratic":
            taken |= {"l1": (0.0,), "l2": (0.0,)}
        for name, values in taken.items():
            if (found := getattr(self, name, values[0])) not in values:
                named = f"method {found}" if name == "method" else f"{name} = {found}"
                raise ValueError(f"Options.collisions: expected evict with {named}, found 'share'")
