"""Which tuples of attributes are learned from, with method `tuples`."""

from dataclasses import dataclass
from typing import ClassVar

from stream_apple.core.learner.options.bounds import IntegerBounds, NumberBounds

ORDER = IntegerBounds(1, 4)
SELECTION_SHARE = NumberBounds(0, 1)
_PAIRS = 2


@dataclass(frozen=True)
class TupleOptions:
    """Options of the selection of tuples; out of their bounds they raise ValueError.

    Zaidi, Petitjean, Webb: selective higher-order logistic regression (sALR^n, and hsALR^n level by level).

    order            features are products of so many base features of different attributes, besides these themselves;
                     None: 2; 0 with other methods
    selection_share  so many of the tuples of attributes that were seen are learned from, once an epoch has ended
    hierarchical     select attributes first, then pairs of those, and so on up to `order`, an epoch each
    """

    FIRST: ClassVar[dict[str, object]] = {"order": 0, "selection_share": 1.0, "hierarchical": False}

    order: int | None = None
    selection_share: float = 1.0
    hierarchical: bool = False

    def _fill_order(self, *, tuples: bool) -> None:
        if self.order is None:
            object.__setattr__(self, "order", _PAIRS if tuples else 0)

    def _check_tuples(self) -> None:
        if not SELECTION_SHARE.hold(self.selection_share):
            raise ValueError(f"Options.selection_share: expected {SELECTION_SHARE}, found {self.selection_share!r}")

    @property
    def selects_tuples(self) -> bool:
        """Whether some tuples will be left out."""
        return bool(self.order) and self.selection_share != 1.0
