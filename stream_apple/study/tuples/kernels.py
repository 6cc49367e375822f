"""The loops over examples and their tuples, compiled: where a feature is, how often, its score and its step.

All kernels call only what is in this file: the cache of compiled code does not see edits elsewhere.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, part

_Integers = NDArray[np.int32]
_Longs = NDArray[np.int64]
_Words = NDArray[np.uint64]
_Floats = NDArray[np.float64]

LOG_THETA, BETA, SQUARES = 0, 1, 2
"""Rows of a feature's state, each with a number of every class: log θ, β, and AdaGrad's sum of squared gradients."""

_LEAST_SCORE = -30.0  # below the greatest: a class has a probability of at least e^-30, whatever was learned


@part
def _bits_of(word: np.uint64) -> np.int64:
    """How many are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@part
def _value_code(codes: _Integers, row: int, members: _Integers, which: int, cardinalities: _Longs) -> int:
    """Of the values that the row has of the tuple's attributes: in mixed radix, the last attribute varying fastest."""
    code = 0
    for place in range(members.shape[1]):
        attribute = members[which, place]
        code = code * cardinalities[attribute] + codes[row, attribute]
    return code


@kernel
def mark_seen(
    codes: _Integers, rows: _Longs, members: _Integers, cardinalities: _Longs, offsets: _Longs, bits: _Words
) -> None:
    """Set the bit of each feature, a tuple with its values, that one of the rows has.

    codes          int32[n, a]: value of each attribute
    rows           int64[m]
    members        int32[t, order]: attributes of each tuple
    cardinalities  int64[a]
    offsets        int64[t]: of the tuple's first bit
    bits           uint64[words], changed
    """
    for at in range(len(rows)):
        for which in range(len(members)):
            bit = offsets[which] + _value_code(codes, rows[at], members, which, cardinalities)
            bits[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


@kernel
def count_before(bits: _Words, before: _Longs) -> int:
    """`before[w]`: how many bits are set in the words before the w-th; returns how many there are in all."""
    total = 0
    for word in range(len(bits)):
        before[word] = total
        total += int(_bits_of(bits[word]))
    return total


@part
def _rank(bits: _Words, before: _Longs, bit: int) -> int:
    """How many bits are set strictly before this one; -1 if it is not set itself."""
    word, place = bits[bit >> 6], np.uint64(1) << np.uint64(bit & 63)
    if not word & place:
        return -1
    return int(before[bit >> 6] + _bits_of(word & (place - np.uint64(1))))


@kernel
def rank_all(bits: _Words, before: _Longs, wanted: _Longs, found: _Longs) -> None:
    """The rank of each wanted bit; -1 of those that are not set."""
    for at in range(len(wanted)):
        found[at] = _rank(bits, before, wanted[at])


@kernel
def find_features(
    codes: _Integers, rows: _Longs, members: _Integers, cardinalities: _Longs, offsets: _Longs, bits: _Words,
    before: _Longs, found: _Integers,
) -> None:  # fmt: skip
    """`found[m, t]`: the index of the feature that each row has of each tuple; -1 if it was never seen in training."""
    for at in range(len(rows)):
        for which in range(len(members)):
            bit = offsets[which] + _value_code(codes, rows[at], members, which, cardinalities)
            found[at, which] = _rank(bits, before, bit)


@kernel
def count_features(features: _Integers, labels: _Integers, counts: _Integers) -> None:
    """Add to `counts[feature, class]` what the rows of features[m, t], of the classes labels[m], have."""
    for at in range(len(features)):
        for which in range(features.shape[1]):
            if features[at, which] >= 0:
                counts[features[at, which], labels[at]] += 1


@part
def _score(features: _Integers, at: int, state: _Floats, scores: _Floats) -> None:
    """Σ β log θ of each class, the class's own term included."""
    prior = len(state) - 1
    for c in range(len(scores)):
        scores[c] = state[prior, BETA, c] * state[prior, LOG_THETA, c]
    for which in range(features.shape[1]):
        feature = features[at, which]
        if feature >= 0:
            for c in range(len(scores)):
                scores[c] += state[feature, BETA, c] * state[feature, LOG_THETA, c]


@part
def _normalise(scores: _Floats) -> None:
    """Scores become log probabilities."""
    greatest = scores[0]
    for c in range(1, len(scores)):
        greatest = max(greatest, scores[c])
    total = 0.0
    for c in range(len(scores)):
        scores[c] = max(scores[c] - greatest, _LEAST_SCORE)
        total += math.exp(scores[c])
    for c in range(len(scores)):
        scores[c] -= math.log(total)


@kernel
def score_all(features: _Integers, state: _Floats, scores: _Floats) -> None:
    """`scores[m, classes]`: of each row of features[m, t], not yet normalised.

    state  float64[features + 1, 3, classes]: see LOG_THETA, BETA, SQUARES; the last is that of the class itself, with
           log π in place of log θ
    """
    for at in range(len(features)):
        _score(features, at, state, scores[at])


@kernel
def normalise_all(scores: _Floats) -> None:
    """Each row of scores becomes log probabilities, none far below the others: counts are too sure of themselves."""
    for at in range(len(scores)):
        _normalise(scores[at])


@part
def _step(state: _Floats, feature: int, c: int, error: float, rate: float) -> None:
    """AdaGrad's: the gradient of log P(y|x) is the error times log θ; its square is added before it is used."""
    gradient = error * state[feature, LOG_THETA, c]
    squares = state[feature, SQUARES, c] + gradient * gradient
    if squares > 0.0:
        state[feature, SQUARES, c] = squares
        state[feature, BETA, c] += rate * gradient / math.sqrt(squares)


@kernel
def learn_all(features: _Integers, labels: _Integers, state: _Floats, rate: float, scores: _Floats) -> None:
    """One pass: each row is scored, then learned. `scores` is for scratch, float64[classes]; see `score_all`."""
    prior = len(state) - 1
    for at in range(len(features)):
        _score(features, at, state, scores)
        _normalise(scores)
        for c in range(len(scores)):
            scores[c] = (1.0 if labels[at] == c else 0.0) - math.exp(scores[c])
        for which in range(features.shape[1]):
            feature = features[at, which]
            if feature >= 0:
                for c in range(len(scores)):
                    _step(state, feature, c, scores[c], rate)
        for c in range(len(scores)):
            _step(state, prior, c, scores[c], rate)
