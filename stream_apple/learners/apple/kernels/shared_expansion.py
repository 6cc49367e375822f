"""The hashing trick: features of equal hash share a slot, and so a weight; which slots an example has.

Each of the 2^bits slots belongs to one value of the hash for good: nothing is evicted, deferred or refused, and the
table does not say which features a weight belongs to (Cohen, "Efficient logistic regression with stochastic gradient
descent"; Weinberger et al. 2009, without their signs). Features that collide within an example are summed first, and
learned once as one feature. A sum that is 0, or TOO_LARGE, is no feature.

A value h of the hash has the key `key_of_hash(h)`, whose tag differs from those of the seven others of its bucket. So
buckets are never full, and the table is looked up, saved and counted like a table of monomials.
"""

import numpy as np

from stream_apple.core.batch import BIN, TOO_LARGE
from stream_apple.core.jit import part, prefetch, routine
from stream_apple.core.splitmix64 import GOLDEN
from stream_apple.learners.apple.kernels.admission import admit
from stream_apple.learners.apple.state.model import TRUNCATED, Decay, Model
from stream_apple.learners.apple.state.table import FREE, U0, U1, U3, U7, U8, Index, bucket_of, find
from stream_apple.learners.apple.state.work import BaseFeatures, Work

_U64 = np.uint64(64)


@part
def key_of_hash(value: Index) -> Index:
    """Return the key of the slot that belongs to this value of the hash."""
    return ((value >> U3) << U8) | ((value & U7) << U1) | U1


@part
def hash_of(key: Index, bits: Index) -> Index:
    """Return a hash of `bits` bits: the high bits of a product, since the lowest bit of a square's key is always 0."""
    return np.uint64(key * GOLDEN) >> (_U64 - bits)


@routine
def expand_shared(
    model: Model, decay: Decay | None, base: BaseFeatures, learning: bool, work: Work
) -> tuple[Index, Index]:  # fmt: skip
    """Collect the slots of the example in `work.features` (slot and x).

    Returns how many slots there are, and how many of them, which come first, belong to the constant and to base
    features. For these `work.own.values` has the sums over base features alone. The slots of products follow. When
    learning, slots that are used for the first time are taken; else they are left out, because their weights are 0.
    """
    table, features, limit = model.table, work.features, np.uint64(model.rule.expansion.max_features)
    bits, constant = np.uint64(model.rule.expansion.hash_bits), np.uint64(len(table.slots) - 1)
    features.slot[0], features.x[0] = constant, 1.0
    table.slots[constant]["active"] = 1
    work.own.values[0] = 1.0
    found, visited = U1, U1 + (base.stop - base.first)
    truncated = visited > limit
    if not truncated:
        for f in range(base.first, base.stop):
            prefetch(table.tags, bucket_of(table.tags, key_of_hash(hash_of(base.keys[f], bits))))
        for f in range(base.first, base.stop):
            key = key_of_hash(hash_of(base.keys[f], bits))
            found = _add(model, decay, work, (key, base.values[f], np.uint8(1)), found, learning)
    own = found
    for t in range(U1, own):
        work.own.values[t] = features.x[t]
    if model.rule.expansion.max_degree > 1 and not truncated:
        for f in range(base.first, base.paired):
            first = f + np.uint64(len(base.roles) > 0 and base.roles[f] == BIN)
            visited += base.paired - first
            if visited > limit:
                truncated = True
                break
            for g in range(first, base.paired):
                prefetch(table.tags, bucket_of(table.tags, key_of_hash(hash_of(base.keys[f] + base.keys[g], bits))))
            for g in range(first, base.paired):
                x = base.values[f] * base.values[g]
                if not 0.0 < abs(x) < TOO_LARGE:
                    continue
                key = key_of_hash(hash_of(base.keys[f] + base.keys[g], bits))
                found = _add(model, decay, work, (key, x, np.uint8(2)), found, learning)
    model.scalars.counts[TRUNCATED] += np.int64(truncated and learning)
    return _without_zeros(model, work, own, found)


@part
def _add(
    model: Model, decay: Decay | None, work: Work, feature: tuple[Index, np.float32, np.uint8], found: Index,
    learning: bool,
) -> Index:  # fmt: skip
    """Add a value to the feature of its slot, which may be a new one; return how many features there are then.

    feature  key of the slot, value, and degree; a slot that base features use has degree 1
    """
    table, features = model.table, work.features
    key, x, degree = feature
    place = find(table, key)
    if place >= FREE:
        if not learning:
            return found
        work.newcomers[0]["key"], work.newcomers[0]["x"] = key, x
        work.newcomers[0]["damping"], work.newcomers[0]["degree"], work.newcomers[0]["parent"] = 0.0, degree, 0
        work.places[place - FREE] = found
        return admit(model, decay, work, found, U1)
    owner = table.slots[place]
    if owner["active"]:
        features.x[np.uint64(work.places[place])] += x
        return found
    owner["active"] = 1
    if learning and degree < owner["degree"]:
        owner["degree"] = degree
    work.places[place] = found
    features.slot[found], features.x[found] = place, x
    return found + U1


@part
def _without_zeros(model: Model, work: Work, own: Index, found: Index) -> tuple[Index, Index]:
    """Drop the features whose value is 0 or TOO_LARGE; return how many are left, in all and of the first `own`."""
    features, left, kept = work.features, U1, own
    for t in range(U1, found):
        x = features.x[t]
        if not 0.0 < abs(x) < TOO_LARGE:
            model.table.slots[features.slot[t]]["active"] = 0
            kept -= np.uint64(t < own)
            continue
        features.slot[left], features.x[left] = features.slot[t], x
        if t < own:
            work.own.values[left] = work.own.values[t]
        left += U1
    return left, kept


@part
def score_shared(model: Model, work: Work, base: Index, score: float) -> tuple[float, Index]:
    """Return the linear predictor's score, from the sums over base features alone, and the number of their slots.

    It saves the scales and linear weights of these slots in `work.own`, before apple's update changes them.
    """
    if not model.rule.alongside:
        return score, U0
    linear = np.float64(0.0)
    for t in range(base):
        owner = model.table.slots[work.features.slot[t]]
        linear += owner["linear_weight"] * work.own.values[t]
        work.own.scales[t], work.own.linear_weights[t] = owner["scale"], owner["linear_weight"]
    return linear, base


@part
def use_base_values(model: Model, work: Work, base: Index) -> None:
    """Set the values of the first features to the sums over base features alone, for the linear predictor.

    If only a product has widened a slot's scale, the linear weight is restored: the values of base features are not
    larger than before.
    """
    for t in range(base):
        owner, x, scale = model.table.slots[work.features.slot[t]], work.own.values[t], work.own.scales[t]
        work.features.x[t] = x
        if owner["scale"] != scale:
            grown = 0.0 < scale < abs(x)
            owner["linear_weight"] = work.own.linear_weights[t] * (scale / abs(x) if grown else np.float32(1.0))
