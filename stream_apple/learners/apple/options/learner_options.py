"""`Options` checks and completes the options of a learner, and derives names, memory and columns from them."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from stream_apple.learners.apple.options.contradictions import refuse_contradictions
from stream_apple.learners.apple.options.declared_options import DECLARED, DEGREES, DeclaredOptions
from stream_apple.learners.apple.options.ngrams import ALL_NAMESPACES, checked_ngrams
from stream_apple.learners.declaration import SystemOptions

MOST_FIRST_FEATURES = 1 << 15
"""The most features that the first examples have in all: numbers get their splines before the example that no longer
fits. So a snapshot's manifest, which has them all, stays below Kafka's default limit for a message."""

# Sizes of the arrays of `state/table.py` and `state/work.py`, which can't be imported here.
_SLOT_BYTES, _COMPANION_BYTES, _RESIDUALS_BYTES = 32, 12, 16
_BUCKET_BYTES = 10  # a word of tags, and at most two bytes of the admission filter
_SCRATCH_BYTES = 92  # for each feature of an example
_PREPARED_BYTES = 30 << 20  # of what `preparation/preparation.py` makes at once
_FIRST_FEATURE_BYTES = 51  # of the first examples: key and value, and up to three of them with roles, prepared
_PENDING_BYTES = 600  # of an example that waits for its label


@dataclass(frozen=True)
class Options(DeclaredOptions, SystemOptions):
    """All that defines a model but its examples. Two learners with equal options and examples are equal to the bit.

    A value out of its bounds raises ValueError, and so do options that contradict each other. None is replaced by the
    default that goes with the other options.
    """

    system = "apple"

    def __post_init__(self) -> None:
        for name, declaration in DECLARED.items():
            if (given := getattr(self, name)) is not None or declaration.default is not None:
                object.__setattr__(self, name, declaration.checked(given))
        for name, default in self._defaults():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        object.__setattr__(self, "ngrams", checked_ngrams(self.ngrams))
        refuse_contradictions(self)

    def _defaults(self) -> Iterator[tuple[str, object]]:
        """Yield the defaults that depend on other options; each sees those before it filled."""
        yield "mixture", self.method == "apple"
        yield "mergeable", not self.mixture
        yield "bits", 24 if self.method == "cubic" else 18
        yield "learning_rate", 0.75 if self.mixture and self.objective.multiclass else 0.5
        yield "discretise", "spline" if self.mixture else "none"
        yield "max_degree", 4 if self.mixture else DEGREES.high
        yield "drift", "restart" if self.mixture and not self.mergeable else "ignore"

    @property
    def mixed(self) -> bool:
        """Whether several predictors are learned, and their mixture is published."""
        return bool(self.mixture)

    @property
    def grows_early(self) -> bool:
        """Whether a model also grows before an epoch ends, see `growth.EARLY_GROWTH`."""
        return self.mixed and not self.mergeable

    def ngrams_of_namespaces(self) -> tuple[dict[str, int], int]:
        """Return the size of n-grams by namespace, and the size in all other namespaces."""
        sizes = dict(self.ngrams)
        others = sizes.pop(ALL_NAMESPACES, 1)
        return sizes, others

    @property
    def longest_ngram(self) -> int:
        """The size of the longest n-gram: n-grams make at most so many features of each feature. 1 without n-grams."""
        return max(dict(self.ngrams).values(), default=1)

    @property
    def why_not_merged(self) -> str:
        """Why models of these options can't be merged: expected, found, reason; "" if they can."""
        if not self.mergeable:
            return "expected learner.mergeable = true, found false: each model would grow and restart at its own time"
        return self.why_not_started_from

    @property
    def why_not_started_from(self) -> str:
        """Why no model can start from one of these options, likewise; "" if one can."""
        if self.steps == "theorem1":
            return (
                "expected learner.paper.steps = adaptive, found 'theorem1': its weights have no accumulators to be "
                "averaged by"
            )
        return ""

    def wanted_columns(self) -> frozenset[str]:
        """Return which of the optional fields of batches this model needs: `spaces`, or none."""
        return frozenset({"spaces"} if self.ngrams else ())

    @property
    def class_blocks(self) -> int:
        """How many numbers a class has for each slot, see `state/classes.py`."""
        return 0 if not self.classes else 5 if self.mixed else 2 if self.method == "linear" else 4

    def model_bytes(self) -> int:
        """Return the bytes of a model when its table is full: mostly 2^bits slots, each with its side arrays."""
        slots = 1 << int(self.bits or 0)
        each = _SLOT_BYTES
        each += _COMPANION_BYTES if self.method != "linear" else 0
        each += _RESIDUALS_BYTES if self.selection == "ssm" else 0
        each += 4 * self.classes * self.class_blocks
        scratch = _SCRATCH_BYTES
        prepared = MOST_FIRST_FEATURES * _FIRST_FEATURE_BYTES if self.discretise == "spline" else 0
        if self.ngrams:  # examples become as long before they are expanded, many at once
            scratch += _SCRATCH_BYTES
            prepared += _PREPARED_BYTES
        prepared += self.pending_labels * _PENDING_BYTES
        return slots * each + slots // 8 * _BUCKET_BYTES + prepared + self.max_features_per_example * scratch

    def identity(self) -> dict[str, Any]:
        """Return all options by name, as msgpack gives them back: they name a model."""
        return {"system": self.system, **asdict(self), "ngrams": dict(self.ngrams)}
