"""The scratch for merging one bucket: the distinct keys of all models in it, and the merged monomial of each."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.state.table import BUCKET, COMPANION, SLOT, Floats, Slots, Words
from stream_apple.learners.apple.state.weights import PREDICTORS


class MergeScratch(NamedTuple):
    """Scratch for as many keys as may meet in a bucket: n = 8 * models.

    keys      uint64[n]
    places    int64[n, models]  the slot of the key in each model's part of the stack, -1 if it has none
    order     int64[n]          numbers of keys, ascending by key
    votes     int64[n]          how many models have the key as a parent
    use       float32[n]        the `usefulness` of the merged monomial
    kept      uint8[n]          1 if it gets a slot
    merged    SLOT[n]           the merged monomials
    companions  COMPANION[n]    of the merged monomials of degree 0 and 1
    sums      float64[PREDICTORS]  the sums of one monomial's weights times their accumulators
    class_rows  float32[n, columns]  the merged rows of class weights
    classes     the number of classes of the softmax loss, or 0
    """

    keys: Words
    places: NDArray[np.int64]
    order: NDArray[np.int64]
    votes: NDArray[np.int64]
    use: Floats
    kept: NDArray[np.uint8]
    merged: Slots
    companions: Slots
    sums: NDArray[np.float64]
    class_rows: Floats
    classes: int


def empty_merge_scratch(models: int, classes: int, columns: int) -> MergeScratch:
    """Return scratch to merge buckets of `models` models; `columns` is the width of a row of class weights."""
    size = BUCKET * models
    return MergeScratch(
        keys=np.zeros(size, np.uint64),
        places=np.zeros((size, models), np.int64),
        order=np.zeros(size, np.int64),
        votes=np.zeros(size, np.int64),
        use=np.zeros(size, np.float32),
        kept=np.zeros(size, np.uint8),
        merged=np.zeros(size, SLOT),
        companions=np.zeros(size, COMPANION),
        sums=np.zeros(PREDICTORS),
        class_rows=np.zeros((size, columns), np.float32),
        classes=classes,
    )
