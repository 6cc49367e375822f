"""The arrays of a model that kernels work on, and its table: a hash table of features that stores their keys.

A key is looked up from its own place on, at PROBES places at most, up to the first that is free. A feature that finds
no free place is left out: the table never grows, and features that came first stay. Slots become free only when an
epoch's end leaves tuples out; then the other features are entered again, so that no gap hides them.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, part
from stream_apple.learners.tuples.cuts import NumberCuts, no_cuts
from stream_apple.learners.tuples.options import TupleOptions

FeatureSlots: TypeAlias = NDArray[np.void]
Key: TypeAlias = Any  # np.uint64 once compiled
SlotNumber: TypeAlias = Any  # np.int64 once compiled

SLOT = np.dtype(
    [
        ("key", np.uint64),  # the sum of the keys of its base features; 0 = free, and the constant's
        ("attributes", np.uint64),  # the sum of the keys of their attributes, which identifies the tuple
        ("weight", np.float32),
        ("gradient", np.float32),  # sum of squared gradients, AdaGrad's accumulator
        ("scale", np.float32),  # largest |value| learned from
        ("degree", np.uint32),  # how many base features are multiplied; 0: the constant
        ("positive", np.float64),  # importance of its examples with a label above 0,
        ("negative", np.float64),  # and of the others
        ("gain", np.float64),  # with selection cv: how much greater the loss would have been without it
    ]
)
PRODUCT = np.dtype(
    [
        ("key", np.uint64),
        ("attributes", np.uint64),
        ("value", np.float32),
        ("degree", np.int32),
        ("last", np.int32),  # the number of its last base feature
        ("rest", np.int32),  # the number of the product of its other base features; -1: it has none
    ]
)
PROBES = 32
EXAMPLES, FEATURES, TRUNCATED, OCCUPIED, REFUSED, LEVEL, SELECTED_AT = range(7)  # indices of `TupleModel.counts`
NORM, WEIGHT = range(2)  # indices of `TupleModel.steps`
TRUST, CURVATURE = range(2)  # indices of `TupleModel.trust`


class TupleSettings(NamedTuple):
    """What kernels need of the options."""

    loss: int
    order: int
    by_level: bool
    selects: bool
    ablates: bool
    starts_from_counts: bool
    rate: float


class TupleModel(NamedTuple):
    """A model.

    slots   SLOT[2^bits + 1]  the features, and the constant in the last slot
    cuts    the intervals of numbers
    chosen  uint64[k]   the selected tuples, ascending; by level those of all lower levels too
    steps   float64[2]  by NORM and WEIGHT: sums that normalize the update
    labels  float64[2]  the least and the largest of 0 and the labels learned
    trust   float64[2]  by TRUST and CURVATURE: the factor of the naive Bayes log-odds
    counts  int64[7]    by EXAMPLES and so on. LEVEL is the order of the tuples among which the next selection chooses,
                        and one more than `order` after the last selection. SELECTED_AT is the number of examples then
    """

    settings: TupleSettings
    slots: FeatureSlots
    cuts: NumberCuts
    chosen: NDArray[np.uint64]
    steps: NDArray[np.float64]
    labels: NDArray[np.float64]
    trust: NDArray[np.float64]
    counts: NDArray[np.int64]


class TupleScratch(NamedTuple):
    """What one example needs, for `m` features.

    products      PRODUCT[m]  base features first
    missing       int32[m]    numbers of the products that have no slot yet
    slots         int64[m]    of each feature, the constant first
    values        float32[m]
    steps         float64[m]  the direction in which each weight moves
    votes         float64[m]  what each contributes to the naive Bayes log-odds
    """

    products: NDArray[np.void]
    missing: NDArray[np.int32]
    slots: NDArray[np.int64]
    values: NDArray[np.float32]
    steps: NDArray[np.float64]
    votes: NDArray[np.float64]


def new_tuple_model(options: TupleOptions) -> TupleModel:
    """Return a model that has learned nothing."""
    settings = TupleSettings(
        options.objective.number,
        options.order,
        options.by_level,
        options.selects,
        options.selects and options.selection == "cv",
        options.warm_start == "naive_bayes",
        options.learning_rate,
    )
    counts = np.zeros(7, np.int64)
    counts[LEVEL] = 1 if options.by_level else options.order
    slots = np.zeros((1 << int(options.bits or 0)) + 1, SLOT)
    chosen = np.zeros(0, np.uint64)
    return TupleModel(settings, slots, no_cuts(), chosen, np.zeros(2), np.zeros(2), np.zeros(2), counts)


def new_tuple_scratch(options: TupleOptions) -> TupleScratch:
    """Return scratch for the longest example."""
    most = options.max_features_per_example
    numbers, values, whole = np.zeros(most, np.int32), np.zeros(most, np.float32), np.zeros(most, np.int64)
    return TupleScratch(np.zeros(most, PRODUCT), numbers, whole, values, np.zeros(most), np.zeros(most))


@part
def place_of(slots: FeatureSlots, key: Key) -> SlotNumber:
    """Return the slot that has this key, or the free one that it would get; -1 if there is neither."""
    mask = np.uint64(len(slots) - 2)
    at = key & mask
    for _ in range(PROBES):
        owner = slots[at]["key"]
        if owner in (key, np.uint64(0)):
            return np.int64(at)
        at = (at + np.uint64(1)) & mask
    return -1


@kernel
def enter_again(slots: FeatureSlots, features: FeatureSlots) -> None:
    """Enter these features in a table that is empty, in their order; one that finds no place is left out."""
    for number in range(len(features)):
        at = place_of(slots, features[number]["key"])
        if at >= 0:
            slots[at] = features[number]


def keep_only(model: TupleModel, kept: NDArray[np.bool_]) -> int:
    """Empty all slots but the constant's that are not `kept`, bool[2^bits]; return how many that were."""
    slots, before = model.slots[:-1], int(model.counts[OCCUPIED])
    features = slots[kept & (slots["key"] != 0)].copy()
    slots[:] = 0
    enter_again(model.slots, features)
    model.counts[OCCUPIED] = np.count_nonzero(slots["key"])
    return before - int(model.counts[OCCUPIED])
