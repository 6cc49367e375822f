"""The scratch of one example, in which each phase of learning leaves its results to the next.

The arrays are larger than what is in them; each phase returns how far they are filled.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.state.table import Floats, Index, Slots, Words
from stream_apple.learners.apple.state.weights import PREDICTORS, STACK

Numbers: TypeAlias = NDArray[np.uint32]
Numbers64: TypeAlias = NDArray[np.float64]
Roles: TypeAlias = NDArray[np.uint8]

WAVE = 8192  # products looked up before the first of them is used, while memory fetches their slots
LANES = 8  # products looked up at once

NODE = np.dtype(  # a parent present in the example, to be multiplied with base features first, first + 1, ...
    [
        ("key", np.uint64),
        ("first", np.uint64),
        ("x", np.float32),
        ("damping", np.float32),
        ("degree", np.uint8),
        ("start", np.uint32),  # the number of its first product in its wave
        ("origin", np.uint32),  # if features have roles: the number of the node that it is a product of,
        ("by", np.uint32),  # and the number of the base feature
    ],
    align=True,
)
NEWCOMER = np.dtype(  # a monomial that will get a slot
    [("key", np.uint64), ("x", np.float32), ("damping", np.float32), ("degree", np.uint8)],
    align=True,
)


class BaseFeatures(NamedTuple):
    """The base features of one example, keys[first:stop] and values[first:stop].

    roles  as in `Batch`; empty if no feature has a role
    """

    keys: Words
    values: Floats
    roles: Roles
    first: Index
    stop: Index


class ActiveFeatures(NamedTuple):
    """An example's monomials that have slots, one after another, and copies of the slots' fields for the update."""

    slot: Words
    x: Floats
    weight: Floats
    gradient: Floats
    scale: Floats
    step: Floats


class Products(NamedTuple):
    """The products of nodes with base features, of one wave.

    key, x        the product's own
    place         if a tag fits, the slot that may be its own, or the constant's slot if its value is 0 or TOO_LARGE;
                  if no tag fits, its `insertion_point`
    hits, misses  numbers of the products for which a tag fits, and of the others
    """

    key: Words
    x: Floats
    node: Numbers
    place: Words
    hits: Numbers
    misses: Numbers


class Lookups(NamedTuple):
    """What is known of one node's products while they are looked up.

    words   uint64[...]  the word of tags of each product's bucket
    left    uint8[...]   a byte for each eight products, whose bits say which are left out
    absent  uint8[...]   a byte for each eight products, whose bits say which have no slot
    """

    words: Words
    left: NDArray[np.uint8]
    absent: NDArray[np.uint8]


class Own(NamedTuple):
    """A copy of the base features that kernels may change: keys uint64, values float32, roles uint8."""

    keys: Words
    values: Floats
    roles: Roles


class Mixing(NamedTuple):
    """What the predictors say of one example, and the scratch of a Newton step of the stack; see `mixture.py`.

    scores     float64[PREDICTORS + 1]  of the predictors, by their numbers, and of the stack, at STACK
    unbounded  float64[1]               the stack's score before it is clipped
    losses     float64[5]               of the scores that have a share, see `learn_shares`
    matrix     float64[PREDICTORS, PREDICTORS]
    vector     float64[PREDICTORS]
    """

    scores: Numbers64
    unbounded: Numbers64
    losses: Numbers64
    matrix: Numbers64
    vector: Numbers64


class Work(NamedTuple):
    """The whole scratch: `nodes` NODE, a queue; `newcomers` NEWCOMER.

    next_row  int64[1]  the first row that the last kernel has not finished
    """

    features: ActiveFeatures
    products: Products
    nodes: Slots
    newcomers: Slots
    mixing: Mixing
    lookups: Lookups
    own: Own
    next_row: NDArray[np.int64]


def empty_work(max_features: int, longest: int) -> Work:
    """Return scratch for examples of up to `longest` base features."""
    size, wave = max_features + longest + 1, WAVE + longest + LANES
    return Work(
        ActiveFeatures(np.zeros(size, np.uint64), *(np.zeros(size, np.float32) for _ in range(5))),
        empty_products(wave),
        np.zeros(size, NODE),
        np.zeros(size, NEWCOMER),
        empty_mixing(),
        Lookups(np.zeros(longest + LANES, np.uint64), *(np.zeros(longest // LANES + 1, np.uint8) for _ in range(2))),
        Own(
            np.zeros(longest + LANES, np.uint64),
            np.zeros(longest + LANES, np.float32),
            np.zeros(longest + LANES, np.uint8),
        ),
        np.zeros(1, np.int64),
    )


def empty_mixing() -> Mixing:
    """Return scratch to mix the scores of one example."""
    return Mixing(
        np.zeros(STACK + 1), np.zeros(1), np.zeros(5), np.zeros((PREDICTORS, PREDICTORS)), np.zeros(PREDICTORS)
    )


def empty_products(size: int) -> Products:
    """Return room for `size` products, which include the LANES that are written beyond the last one."""
    return Products(
        key=np.zeros(size, np.uint64),
        x=np.zeros(size, np.float32),
        node=np.zeros(size, np.uint32),
        place=np.zeros(size, np.uint64),
        hits=np.zeros(size, np.uint32),
        misses=np.zeros(size, np.uint32),
    )
