"""What parents cost and contribute, and what candidates would cost, measured on the latest examples.

An example's features belong to the parent through which they are reached first. A parent earns the sum of their
contributions to the averaged score, in absolute value; it costs all of its products with base features, since each is
looked up, whether it is a feature or not.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, routine
from stream_apple.core.learner.kernels.expansion import expand
from stream_apple.core.learner.state.model import Model
from stream_apple.core.learner.state.recent import RECENT_EXAMPLES, RECENT_FEATURES
from stream_apple.core.learner.state.table import FREE, PARENT, U1, Index, find
from stream_apple.core.learner.state.work import Origins, Work, example_features

Places = NDArray[np.int64]
Means = NDArray[np.float64]


class Appraisal(NamedTuple):
    """Means over the latest examples.

    examples  how many those are
    products  looked up, the base features included
    nonzeros  base features of an example
    cost      float64[parents]  of them, those of each parent
    earned    float64[parents]  the sum of |average weight * value| over its features
    presence  float64[candidates]  the share of examples that have the monomial
    """

    examples: int
    products: float
    nonzeros: float
    cost: Means
    earned: Means
    presence: Means


def appraise(model: Model, work: Work, parents: Places, candidates: Places) -> Appraisal:
    """Measure on the latest examples; `parents` are slots in ascending order, `candidates` are slots in any order."""
    order = np.argsort(candidates)
    cost, earned, presence = np.zeros(len(parents)), np.zeros(len(parents)), np.zeros(len(candidates))
    totals = np.zeros(3)
    origins = work.origins if model.rule.side_arrays.counts else None
    _appraise_recent(model, work, origins, (parents, candidates[order]), (cost, earned, presence), totals)
    examples = max(totals[0], 1.0)
    back = np.empty_like(presence)
    back[order] = presence
    return Appraisal(
        int(totals[0]), totals[1] / examples, totals[2] / examples, cost / examples, earned / examples, back / examples
    )


@kernel
def _appraise_recent(
    model: Model,
    work: Work,
    origins: Origins | None,
    places: tuple[Places, Places],
    sums: tuple[Means, Means, Means],
    totals: Means,
) -> None:
    """Add up cost, earned and presence of each; totals: examples, products, base features."""
    recent, slots, features = model.recent, model.table.slots, work.features
    parents, candidates = places
    cost, earned, presence = sums
    for half in range(2):
        first = 0
        for e in range(recent.filled[1 + half]):
            end = recent.ends[half * RECENT_EXAMPLES + e]
            offset = half * RECENT_FEATURES
            span = np.uint64(offset + first), np.uint64(offset + end)
            example = example_features(recent.keys, recent.values, recent.roles, span[0], span[1])
            found, _ = expand(model, example, False, work, origins)  # noqa: FBT003  by position: it is compiled
            totals[0] += 1.0
            totals[2] += end - first
            first = end
            nodes = U1
            for t in range(U1, found):
                owner = slots[features.slot[t]]
                nodes += np.uint64(
                    (owner["parent"] & PARENT) != 0 and owner["degree"] < model.rule.expansion.max_degree
                )
                at = _index_of(candidates, np.int64(features.slot[t]))
                if at >= 0:
                    presence[at] += 1.0
            ends = example.stop - example.first, example.paired - example.first
            totals[1] += _credit(model, work, (parents, nodes), (cost, earned), ends)
            slots[len(slots) - 1]["active"] = 0


@routine
def _credit(
    model: Model, work: Work, which: tuple[Places, Index], sums: tuple[Means, Means], ends: tuple[Index, Index]
) -> float:
    """Credit each feature of the example to the node that reaches it first, in the order of `expand`; clear its mark.

    `which`: all parents, and how many nodes the example has; `ends`: how many base features, and how many of them are
    multiplied. Returns how many products the nodes have.
    """
    table = model.table
    parents, nodes = which
    cost, earned = sums
    products = 0.0
    for number in range(nodes):
        node, stop = work.nodes[number], ends[0] if number == 0 else ends[1]
        size = np.float64(stop - node["first"])
        products += size
        at = _index_of(parents, np.int64(find(table, node["key"]))) if number > 0 else -1
        if at >= 0:
            cost[at] += size
        for f in range(node["first"], stop):
            place = find(table, node["key"] + work.own.keys[f])
            if place >= FREE or table.slots[place]["active"] == 0:
                continue
            owner = table.slots[place]
            owner["active"] = 0
            if at >= 0:
                earned[at] += abs(owner["average"] * node["x"] * work.own.values[f])
    return products


@routine
def _index_of(places: Places, place: Index) -> int:
    """Return the index of a slot in an ascending array, -1 if it is not in it."""
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) >> 1
        if places[middle] < place:
            low = middle + 1
        else:
            high = middle
    return low if low < len(places) and places[low] == place else -1
