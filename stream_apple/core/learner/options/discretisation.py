"""How values of numeric features become intervals before they are learned."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from stream_apple.core.learner.options.bounds import IntegerBounds

Discretise = Literal["none", "quantile", "mdl", "auto"]

BINS = IntegerBounds(2, 64)
RESERVOIR = IntegerBounds(20, 10_000)
REFIT_EPOCHS = IntegerBounds(0, 10_000)
RESERVOIR_ENTRIES = 1 << 15
"""Features that a reservoir holds at most: cuts are fitted before the example that no longer fits. So a snapshot's
manifest, which has them all, stays below Kafka's default limit for a message."""
_ENTRY_BYTES = 28  # key, value, namespace and attribute
_EXAMPLE_BYTES = 24  # size, label and priority
_COUNT_BYTES = 64  # of a value and a class, while a feature is cut by the entropy of classes
_BINS, _BINS_OF_BOTH = 12, 6
_RESERVOIR, _RESERVOIR_OF_BOTH = 500, 150


@dataclass(frozen=True)
class Discretisation:
    """Options of discretisation; out of their bounds they raise ValueError.

    discretise  none: values are learned as they are; quantile, mdl: a numeric feature is the interval that its value
                lies in, between quantiles or between cuts that tell labels apart (Fayyad, Irani 1993); auto: it is
                both, the value and the interval between quantiles
    bins        intervals of a feature between quantiles, at most; None: 12, with auto 6; mdl finds their number
    reservoir   after so many learned examples cuts are fitted, once, and frozen; until then values are learned as they
                are; None: 500, with auto 150
    discretise_namespaces  names, with commas between, of the namespaces whose features are discretised; "": of all
    refit_epochs  when so many epochs have ended since cuts were made, they are made anew, of a sample of `reservoir`
                  of the examples learned since; 0: never
    """

    FIRST: ClassVar[dict[str, object]] = {
        "discretise": "none",
        "bins": _BINS,
        "reservoir": _RESERVOIR,
        "discretise_namespaces": "",
        "refit_epochs": 0,
    }

    discretise: Discretise = "none"
    bins: int | None = None
    reservoir: int | None = None
    discretise_namespaces: str = ""
    refit_epochs: int = 0

    def _check_discretisation(self) -> None:
        """Fill in what is None."""
        if self.discretise not in get_args(Discretise):
            choices = ", ".join(get_args(Discretise))
            raise ValueError(f"Options.discretise: expected one of {choices}, found {self.discretise!r}")
        defaults = {"bins": _BINS, "reservoir": _RESERVOIR}
        if self.discretise == "auto":  # fewer intervals need fewer examples, and what is lost is lost before the cuts
            defaults = {"bins": _BINS_OF_BOTH, "reservoir": _RESERVOIR_OF_BOTH}
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        if self.bins is None or not BINS.hold(self.bins):
            raise ValueError(f"Options.bins: expected {BINS}, found {self.bins!r}")
        if self.reservoir is None or not RESERVOIR.hold(self.reservoir):
            raise ValueError(f"Options.reservoir: expected {RESERVOIR}, found {self.reservoir!r}")
        if not REFIT_EPOCHS.hold(self.refit_epochs):
            raise ValueError(f"Options.refit_epochs: expected {REFIT_EPOCHS}, found {self.refit_epochs!r}")
        if "" in (names := self.namespaces_to_discretise) and names != ("",):
            found = self.discretise_namespaces
            raise ValueError(f"Options.discretise_namespaces: expected names with commas between, found {found!r}")

    @property
    def namespaces_to_discretise(self) -> tuple[str, ...]:
        """The names; ("",) for all."""
        return tuple(name.strip() for name in self.discretise_namespaces.split(","))

    def _discretisation_bytes(self, *, classes: int) -> int:
        if self.discretise == "none":
            return 0
        examples = int(self.reservoir or 0)
        counted = examples * min(classes, examples) * _COUNT_BYTES if self.discretise == "mdl" else 0
        sampled = 2 * examples * _EXAMPLE_BYTES if self.refit_epochs else 0
        return 2 * RESERVOIR_ENTRIES * _ENTRY_BYTES + counted + sampled
