"""The table of monomials: 2^bits slots in buckets of eight, each owned by one 64-bit key.

A key is looked up in one word of tags first (a byte of each slot's key, as in Google's SwissTable), so most absent
keys are recognised without reading their slots. Indices are unsigned throughout the kernels: a signed one costs a test
for Python's negative indices at every access.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part
from stream_apple.errors import ConfigurationError

Slots: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float32]
Words: TypeAlias = NDArray[np.uint64]
Index: TypeAlias = Any  # np.uint64 once compiled
Element: TypeAlias = Any  # one element of a structured array, changed in place

BUCKET = 8  # slots among which a key may live; their tags fill one word
CACHE_LINE = 64  # bytes

# Half a cache line, so that one cache miss brings all that scoring and learning a product needs.
SLOT = np.dtype(
    [
        ("key", np.uint64),  # the owner; 0 = free (and the constant's, in the last slot)
        ("weight", np.float32),
        ("gradient", np.float32),  # sum of squared gradients, AdaGrad's accumulator
        ("scale", np.float32),  # largest |x| learned from
        ("average", np.float32),  # if predictors are mixed: the mean of its latest weights,
        ("fast", np.float32),  # and its weight at a higher rate (`update.py`)
        ("degree", np.uint8),
        ("parent", np.uint8),  # odd: its products with base features are features; see `parent_selection.py`
        ("active", np.uint8),  # scratch: already a feature of this example; 0 between examples
        ("sights", np.uint8),  # if predictors are mixed: how often it was learned, at most 255
    ]
)
# What the constant and base features have in addition: the linear predictors.
COMPANION = np.dtype(
    [
        ("linear_weight", np.float32),
        ("linear_gradient", np.float32),  # its accumulator
        ("slow_linear", np.float32),  # if predictors are mixed: the weight at a lower rate
    ]
)
# What a monomial has in addition if parents are selected by squared residuals, see `residuals.py`. Like all rows beside
# slots it has no gaps between fields: digests cover rows as bytes, and NumPy copies fields, not what lies between them.
RESIDUALS = np.dtype(
    [
        ("residuals", np.float64),  # sum of importance * residual^2 * x^2,
        ("squares", np.float64),  # and of importance * x^2
    ]
)
PARENT = np.uint8(1)  # the bit of `parent` that a parent has
NOMINATED = np.uint8(64)  # a further bit of a parent that became one since the last merge, if models are merged

# Whatever is learned, a model stays finite. Values and products are below 2^60 in size (`TOO_LARGE`) and weights are at
# most MOST_WEIGHT, so scores can't overflow; accumulators stay from LEAST_SQUARE to MOST, so steps can't.
MOST_WEIGHT = np.float32(2.0**66)  # times 2^60 it is finite; 1 / sqrt(LEAST_SQUARE), the largest step, is below it
MOST = np.finfo(np.float32).max
LEAST_SQUARE = np.float32(1.2e-38)  # a square is never less (as in Vowpal Wabbit)


class Table(NamedTuple):
    """All monomials of a model.

    slots    SLOT[2^bits + 1]  in buckets of 8, and the constant's
    tags     uint64[buckets]   a byte of each slot's key, 0 = free
    admission_filter  uint8[buckets] or uint8[2 * buckets], see `admission.py`
    companions        COMPANION[2^bits + 1], or COMPANION[0] without a linear predictor, by the slot's number: used for
                      slots of degree 0 and 1, and 0 for others. Memory that was never written costs nothing
    residuals         RESIDUALS[2^bits + 1] or RESIDUALS[0], by the slot's number: used for all slots
    class_weights     float32[2^bits + 1, columns] or float32[0, 0], by the slot's number: the weights of each class,
                      see `state/classes.py`
    """

    slots: Slots
    tags: Words
    admission_filter: NDArray[np.uint8]
    companions: Slots
    residuals: Slots
    class_weights: NDArray[np.float32]

    def part(self, start: int, stop: int) -> "Table":
        """Return views of slots [start, stop), which are whole buckets or the constant's, as a table of their own."""
        buckets, of_filter = len(self.tags), len(self.admission_filter)
        first, end = start // BUCKET, stop // BUCKET
        return self._replace(
            slots=self.slots[start:stop],
            tags=self.tags[first:end],
            admission_filter=self.admission_filter[of_filter // buckets * first : of_filter // buckets * end],
            companions=self.companions[start:stop],
            **{name: getattr(self, name)[start:stop] for name in SIDES},
        )

    @property
    def rows(self) -> dict[str, NDArray[Any]]:
        """Return by name all that belongs to buckets, without the constant: views with a row for each bucket."""
        buckets, size = len(self.tags), len(self.tags) * BUCKET
        found: dict[str, NDArray[Any]] = {"tags": self.tags}
        found["admission_filter"] = self.admission_filter.reshape(buckets, -1)
        for name in ("slots", "companions", *SIDES):
            array = getattr(self, name)
            if array.size:
                found[name] = array[:size].reshape(buckets, BUCKET, *array.shape[1:])
        return found

    @property
    def constant(self) -> dict[str, NDArray[Any]]:
        """Return by name all that belongs to the constant: views of one dimension."""
        arrays = {"weights": self.slots, "companion": self.companions} | {name: getattr(self, name) for name in SIDES}
        return {
            f"constant_{name}": array[-1:].view(np.uint8).reshape(-1) for name, array in arrays.items() if array.size
        }

    def nominees(self) -> NDArray[np.int64]:
        """Return the slots of parents that became so since the last merge, int64[k], ascending."""
        taken = np.flatnonzero(self.tags.view(np.uint8))
        return np.compress(self.slots["parent"][taken] & NOMINATED != 0, taken)


SIDES = ("residuals", "class_weights")
"""The side arrays, which a table has if its options need them; rows of free slots are all 0."""


class Extent(NamedTuple):
    """Which side arrays a table has besides its slots.

    mixed      whether predictors are mixed
    linear     whether a linear predictor learns alongside, so that base features have companions
    residuals  whether parents are selected by squared residuals
    class_columns  see `Table`; 0 without classes
    """

    mixed: bool = False
    linear: bool = False
    residuals: bool = False
    class_columns: int = 0


def empty_table(bits: int, extent: Extent) -> Table:
    """Return a table of 2^bits free slots, aligned to cache lines; ConfigurationError if there is too little memory."""
    size = (1 << bits) + 1
    buckets = (1 << bits) // BUCKET
    try:
        raw = np.zeros(size * SLOT.itemsize + CACHE_LINE, np.uint8)
        start = -raw.ctypes.data % CACHE_LINE
        return Table(
            raw[start : start + size * SLOT.itemsize].view(SLOT),
            np.zeros(buckets, np.uint64),
            np.zeros(2 * buckets if extent.mixed else buckets, np.uint8),
            np.zeros(size if extent.linear else 0, COMPANION),
            np.zeros(size if extent.residuals else 0, RESIDUALS),
            np.zeros((size if extent.class_columns else 0, extent.class_columns), np.float32),
        )
    except MemoryError as error:
        raise ConfigurationError(
            f"learner.bits: expected a table that fits into memory, found {size - 1:,} slots: {error}"
        ) from error


def base_features(slots: Slots) -> NDArray[np.int64]:
    """Return the indices, int64[k], of base features' slots: these have companions, and so has the constant."""
    return np.flatnonzero(slots["degree"] == 1)


def taken_count(table: Table) -> int:
    """Return how many slots hold a monomial, without the constant's."""
    return int(np.bitwise_count(table.tags & ONES).sum())


# One byte of a word per slot of a bucket.
ONES = np.uint64(0x0101010101010101)
HIGHS = np.uint64(0x8080808080808080)
PLACES = np.uint64(0x0001020304050607)  # 256^j * PLACES has j in its top byte
FIRST_BITS = np.uint64(0x0102040810204080)  # (word & ONES) * FIRST_BITS has the bytes' lowest bits in its top byte
U0, U1, U3, U7, U8, U56 = (np.uint64(n) for n in (0, 1, 3, 7, 8, 56))
BYTE = np.uint64(0xFF)
FREE = np.uint64(1) << np.uint64(61)  # added to a slot that is free
INFINITE = np.uint64(0x7F800000)  # the bits of infinity; those of numbers from 0 on are less, in the numbers' order
NOWHERE = np.uint64(1) << np.uint64(62)


@part
def bucket_of(tags: Words, key: Index) -> Index:
    """Return the number of the only bucket in which a key may have a slot."""
    return (key >> U8) & np.uint64(len(tags) - 1)


@part
def free_tags(word: Index) -> Index:
    """Return a word with the high bit set in each byte that is 0.

    The lowest of these bits is reliable; above it the bit may also be set where the byte is 1.
    """
    return (word - ONES) & ~word & HIGHS


@part
def fitting_tags(word: Index, key: Index) -> Index:
    """Return a word with the high bit set in each byte that equals the key's tag, as reliable as `free_tags`."""
    return free_tags(word ^ (((key & BYTE) | U1) * ONES))


@part
def taken_slots(word: Index) -> Index:
    """Return a byte whose bits say which tags of the word are not 0; such tags have their lowest bit set."""
    return ((word & ONES) * FIRST_BITS) >> U56


@part
def first_of(bucket: Index, bits: Index) -> Index:
    """Return the slot of a bucket that the lowest of these bits, as of `free_tags`, stands for; `bits` is not 0."""
    return (bucket << U3) + ((((bits & (~bits + U1)) >> U7) * PLACES) >> U56)


@part
def insertion_point(tags: Words, key: Index) -> Index:
    """Return where an absent key would be inserted: 8 * its bucket, plus 1 if that bucket is full."""
    bucket = bucket_of(tags, key)
    return (bucket << U3) | np.uint64(free_tags(tags[bucket]) == U0)


@part
def find(table: Table, key: Index) -> Index:
    """Return the slot that `key` owns; else FREE + the first free slot of its bucket; NOWHERE if the bucket is full."""
    bucket = bucket_of(table.tags, key)
    word = table.tags[bucket]
    fits = fitting_tags(word, key)
    while fits != U0:
        place = first_of(bucket, fits)
        if table.slots[place]["key"] == key:
            return place
        fits &= fits - U1
    free = free_tags(word)
    return NOWHERE if free == U0 else FREE + first_of(bucket, free)
