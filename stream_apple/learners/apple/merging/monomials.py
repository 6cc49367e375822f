"""Merging of one monomial, over all models that have it: each predictor's weights, their accumulators, and the rest.

The merged weight is the mean of the models' weights w, weighted by their accumulators G: the sum of G * w over the sum
of G. So scores are averaged. G becomes the same mean of itself, the sum of G^2 over the sum of G (as in Vowpal Wabbit's
allreduce). It never becomes the sum: models that are merged again and again share a history, which a sum would count
again each time, until steps are next to nothing. With the mean, equal models merge into the same model, to the bit.

A model counts by the evidence for its weight: a model that does not have the monomial, or never learned it, counts
nothing. All predictors that share an accumulator are averaged by it. The scale becomes the largest, as it bounds
values. Residuals are averaged over all models, where those that lack the monomial count as 0: only proportions matter.
Everything is computed in float64, in the order of the models.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.update import within_bounds
from stream_apple.learners.apple.merging.merge_scratch import MergeScratch
from stream_apple.learners.apple.merging.stacks import Stack
from stream_apple.learners.apple.state.classes import (
    BLOCK_OF_AVERAGES,
    BLOCK_OF_GRADIENTS,
    BLOCK_OF_LINEAR_GRADIENTS,
    BLOCK_OF_LINEAR_WEIGHTS,
    BLOCK_OF_WEIGHTS,
)
from stream_apple.learners.apple.state.model import MAX_DEGREE
from stream_apple.learners.apple.state.table import MOST, U0, U1, Floats, Index, Table
from stream_apple.learners.apple.state.weights import (
    LINEAR,
    WITH_WEIGHTS,
    has_weight,
    is_expanded,
    read_weight,
    write_weight,
)

_LARGEST = np.float64(MOST)


@part
def merge_monomial(stack: Stack, scratch: MergeScratch, which: Index) -> bool:
    """Write the merged monomial to the scratch, all but `parent`; return whether its degrees differ between models.

    scratch  places[which] says where the monomial is in each model
    which    the monomial's number in the bucket
    """
    at, into, sums = scratch.places[which], scratch.merged[which], scratch.sums
    total, squares, linear_total, linear_squares = 0.0, 0.0, 0.0, 0.0
    sums[:] = 0.0
    scale, sights, least, most = np.float32(0.0), np.uint8(0), np.uint8(MAX_DEGREE + 1), np.uint8(0)
    for p in range(np.uint64(len(at))):
        if at[p] < 0:
            continue
        place, slots, companions = np.uint64(at[p]), stack.slots[p], stack.companions[p]
        owner, linear = slots[place], 0.0
        gradient = min(np.float64(owner["gradient"]), _LARGEST)
        total += gradient
        squares += gradient * gradient
        if has_weight(owner, companions, LINEAR):
            linear = min(np.float64(companions[place]["linear_gradient"]), _LARGEST)
            linear_total += linear
            linear_squares += linear * linear
        for each in range(WITH_WEIGHTS):
            if has_weight(owner, companions, each):
                evidence = gradient if is_expanded(each) else linear
                sums[each] += evidence * np.float64(read_weight(slots, companions, place, each))
        scale, sights = max(scale, owner["scale"]), max(sights, owner["sights"])
        least, most = min(least, owner["degree"]), max(most, owner["degree"])
    into["key"] = scratch.keys[which]
    into["gradient"] = _mean(squares, total)
    into["scale"], into["degree"], into["active"], into["sights"] = scale, least, 0, sights
    scratch.companions[which]["linear_gradient"] = _mean(linear_squares, linear_total)
    for each in range(WITH_WEIGHTS):
        if has_weight(into, scratch.companions, each):
            mean = _mean(sums[each], total if is_expanded(each) else linear_total)
            write_weight(scratch.merged, scratch.companions, which, each, mean)
    if stack.class_weights.shape[2] > 0:
        _merge_classes(stack, scratch, which)
    return bool(least != most)


@part
def _mean(weighted: float, total: float) -> np.float32:
    """Return a sum weighted by accumulators over the sum of these; 0 if that is 0, as nothing was learned."""
    return np.float32(weighted / total) if total > 0.0 else np.float32(0.0)


@part
def _merge_classes(stack: Stack, scratch: MergeScratch, which: Index) -> None:
    """Merge the classes' weights and accumulators, and write the slot's weights, which follow from them."""
    into, k = scratch.merged[which], np.uint64(scratch.classes)
    blocks = np.uint64(stack.class_weights.shape[2]) // k
    average = np.uint64(BLOCK_OF_AVERAGES)
    for c in range(k):
        _merge_class(stack, scratch, which, np.uint64(BLOCK_OF_WEIGHTS) * k + c, np.uint64(BLOCK_OF_GRADIENTS) * k + c)
    into["weight"] = _spread(scratch.class_rows[which], U0, k)
    if blocks > np.uint64(BLOCK_OF_LINEAR_GRADIENTS):
        first = np.uint64(BLOCK_OF_LINEAR_WEIGHTS) * k
        for c in range(k):
            _merge_class(stack, scratch, which, first + c, np.uint64(BLOCK_OF_LINEAR_GRADIENTS) * k + c)
        if into["degree"] <= 1:
            scratch.companions[which]["linear_weight"] = _spread(scratch.class_rows[which], first, k)
    if blocks > average:
        for c in range(k):
            _merge_class(stack, scratch, which, average * k + c, np.uint64(BLOCK_OF_GRADIENTS) * k + c)


@part
def _merge_class(stack: Stack, scratch: MergeScratch, which: Index, of_weight: Index, of_gradient: Index) -> None:
    """Merge one weight of one class and its accumulator, which are in these columns of the row."""
    at, row = scratch.places[which], scratch.class_rows[which]
    total, squares, weight = 0.0, 0.0, 0.0
    for p in range(np.uint64(len(at))):
        if at[p] < 0:
            continue
        given = stack.class_weights[p, np.uint64(at[p])]
        g = min(np.float64(given[of_gradient]), _LARGEST)
        total += g
        squares += g * g
        weight += g * np.float64(given[of_weight])
    row[of_weight] = _mean(weight, total)
    row[of_gradient] = _mean(squares, total)


@part
def _spread(row: Floats, first: Index, classes: Index) -> np.float32:
    """Return the largest difference between two classes' weights, as `step_all` writes it to the slot."""
    low = high = row[first]
    for c in range(U1, classes):
        low, high = min(low, row[first + c]), max(high, row[first + c])
    return within_bounds(np.float32(high - low))


@part
def write_monomial(stack: Stack, scratch: MergeScratch, which: Index, out: Table, place: Index) -> None:
    """Write what was merged to a slot, and to the side arrays."""
    out.slots[place] = scratch.merged[which]
    if len(out.companions) > 0 and scratch.merged[which]["degree"] <= 1:
        out.companions[place] = scratch.companions[which]
    for c in range(np.uint64(out.class_weights.shape[1])):
        out.class_weights[place, c] = scratch.class_rows[which, c]
    at = scratch.places[which]
    if len(out.residuals) > 0:
        out.residuals[place]["residuals"] = _mean_over(stack.residuals["residuals"], at)
        out.residuals[place]["squares"] = _mean_over(stack.residuals["squares"], at)


@part
def _mean_over(values: NDArray[np.float64], at: NDArray[np.int64]) -> float:
    """Return the mean over the models of values[model, slot], 0 where a model has no slot of the monomial.

    It is clipped to the range of the values, so that equal values have exactly that mean.
    """
    total, least, most = 0.0, np.inf, -np.inf
    for p in range(np.uint64(len(at))):
        value = values[p, np.uint64(at[p])] if at[p] >= 0 else 0.0
        total, least, most = total + value, min(least, value), max(most, value)
    return min(max(total / len(at), least), most)
