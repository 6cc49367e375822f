"""What becomes of features for which the table has no room."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

Collisions = Literal["evict", "share"]


@dataclass(frozen=True)
class Collision:
    """The option of collisions; ValueError for another.

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
