"""The options of `TupleLearner`: their defaults, choices, and bounds.

A worker reads its configuration before its heavy imports, so nothing here may import numpy or numba.
"""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from stream_apple.learners.declaration import IntegerBounds, NumberBounds, Option, SystemOptions, declarations_of

RESERVOIR = 500
"""The number of examples on which numbers are cut into intervals."""
RESERVOIR_FEATURES = 1 << 15
"""The most features that these examples have together, so that one message of a snapshot holds them."""
MOST_TUPLES = 1 << 15
"""The most selected tuples: one message of a snapshot holds their keys."""

# Sizes of the arrays of `model.py`, which this module can't import.
_SLOT_BYTES = 56
_SCRATCH_BYTES = 64  # for each feature of an example
_RESERVOIR_BYTES = RESERVOIR_FEATURES * 64 + RESERVOIR * 32  # with the cuts that are made of it
_OTHER_BYTES = MOST_TUPLES * 8 + 4096


@dataclass(frozen=True)
class DeclaredTupleOptions:
    """The options as they are declared; `TupleOptions` checks them, and replaces None by what goes with the others."""

    loss: Annotated[Literal["logistic", "squared"], Option("The loss that is minimized.")] = "logistic"
    """The loss that is minimized: `logistic` for two labels, 1 and either -1 or 0; `squared` for real-valued labels."""
    order: Annotated[int, Option("The number of attributes of a tuple.", IntegerBounds(1, 4))] = 2
    """The number of attributes of a tuple. An example of A attributes has A over `order` features, in addition to its A
    base features. Use 2 or 3 for up to some dozens of attributes."""
    selection: Annotated[
        Literal["mi", "cv"] | None,
        Option("How tuples are scored for --selection-share.  [default: mi, with squared loss cv]"),
    ] = None
    """The score by which `selection_share` keeps tuples. `mi` is the mutual information of the tuple and the label,
    which needs the logistic loss. `cv` is how much the loss increases without the tuple. The default is `mi`, and `cv`
    with the squared loss."""
    selection_share: Annotated[
        float, Option("Keep this share of the tuples when an epoch ends.", NumberBounds(0, 1))
    ] = 1.0
    """The share of the tuples that is kept. The first end of an epoch after 1,000 examples selects them. Other tuples
    never come back, and attributes that appear later join no tuple. With 1 all tuples are learned."""
    hierarchical: Annotated[bool, Option("Select attributes first, then pairs of those, and so on.")] = False
    """Whether selection proceeds level by level: first attributes, then pairs of the selected attributes, and so on up
    to `order`. Each level takes an epoch of 1,000 examples. Use it if there are too many attributes to try all their
    tuples. It overlooks attributes that say something only together. It has no effect if `selection_share` is 1."""
    warm_start: Annotated[
        Literal["none", "naive_bayes"] | None,
        Option("Where scores start: at 0, or from naive Bayes.  [default: naive_bayes, with squared loss none]"),
    ] = None
    """Where scores start before weights have learned anything. `none`: at 0. `naive_bayes`: at the naive Bayes estimate
    by tuples, which needs the logistic loss. The estimate is trusted as far as it has proved right, and weights learn
    the rest. Its counts do not fade, so use `none` if the meaning of attributes drifts. The default is `naive_bayes`,
    and `none` with the squared loss."""
    discretise: Annotated[
        Literal["quantile", "mdl", "none"],
        Option("Which intervals numbers become: at most 16 of equal size, or those that tell labels apart."),
    ] = "quantile"
    """What a number is learned as. `quantile`: one of at most 16 intervals between quantiles. `mdl`: one of the
    intervals that tell labels apart (Fayyad and Irani). `none`: its value. Cuts are made after 500 examples and stay;
    until then values are learned as they are."""
    bits: Annotated[
        int | None, Option("The table has 2^bits slots.  [default: 18, with --order above 2 22]", IntegerBounds(8, 30))
    ] = None
    """The size of the table: 2^bits slots of 56 bytes for each partition. Each feature takes a slot. Features that find
    no free slot are left out. The default is 18, and 22 with `order` above 2."""
    learning_rate: Annotated[float, Option("The size of steps.", NumberBounds(0, 1000))] = 0.5
    """The size of the steps of the adaptive update."""
    max_features_per_example: Annotated[
        int,
        Option(
            "The most features of an example; further ones are left out.",
            IntegerBounds(2, 1 << 24),
            section="limits",
            unit="features",
        ),
    ] = 65_536


TUPLE_DECLARED = {each.name: each for each in declarations_of(DeclaredTupleOptions)}


@dataclass(frozen=True)
class TupleOptions(DeclaredTupleOptions, SystemOptions):
    """All that defines a model except its examples. Two learners with equal options and examples are equal to the bit.

    ValueError for a value out of its bounds, and for the two combinations that need two labels: the squared loss with
    `selection = "mi"` or with `warm_start = "naive_bayes"`.
    """

    system = "tuples"

    def __post_init__(self) -> None:
        for name, declaration in TUPLE_DECLARED.items():
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, declaration.checked(given))
            elif declaration.default is not None:
                raise ValueError(f"{name}: expected a value, found None")
        of_two_labels = self.objective.binary
        defaults = {
            "selection": "mi" if of_two_labels else "cv",
            "warm_start": "naive_bayes" if of_two_labels else "none",
            "bits": 18 if self.order < 3 else 22,
        }
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
            elif not of_two_labels and name != "bits" and getattr(self, name) != default:
                found = getattr(self, name)
                raise ValueError(f"{name}: expected {default} with loss squared, found {found!r}: it needs two labels")

    @property
    def selects(self) -> bool:
        """Whether some tuples will be left out."""
        return self.selection_share < 1.0

    @property
    def by_level(self) -> bool:
        """Whether tuples are selected level by level."""
        return self.hierarchical and self.selects

    def identity(self) -> dict[str, Any]:
        """Return the options by name, as msgpack returns them: they name a model."""
        return {"system": self.system, **asdict(self)}

    def model_bytes(self) -> int:
        """Return the bytes of a model when its table is full, with what a selection takes for a moment."""
        table = ((1 << int(self.bits or 0)) + 1) * _SLOT_BYTES
        reservoir = 0 if self.discretise == "none" else _RESERVOIR_BYTES
        selection = table * 5 // 2 if self.selects else 0
        return table + selection + reservoir + self.max_features_per_example * _SCRATCH_BYTES + _OTHER_BYTES

    def wanted_columns(self) -> frozenset[str]:
        """Return the optional columns of `Batch` that such a model needs: the attributes."""
        return frozenset({"attributes"})
