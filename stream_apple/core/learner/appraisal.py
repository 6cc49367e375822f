"""What parents cost and contribute, and what candidates would cost, measured on the latest examples.

An example's features belong to the parent through which they are reached first. A parent earns the sum of their
contributions to the averaged score, in absolute value; it costs all of its products with base features, since each is
looked up, whether it is a feature or not.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel
from stream_apple.core.learner.kernels.credits import Credits, SlotIndex, empty_slot_index, index_slots, position_of
from stream_apple.core.learner.kernels.expansion import expand
from stream_apple.core.learner.state.model import Model
from stream_apple.core.learner.state.recent import RECENT_EXAMPLES, RECENT_FEATURES
from stream_apple.core.learner.state.table import U1
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
    """Measure on the latest examples; `parents` and `candidates` are slots, in any order."""
    cost, presence, totals = np.zeros(len(parents) + 1), np.zeros(len(candidates) + 1), np.zeros(3)
    origins = work.origins if model.rule.side_arrays.counts else None
    nodes, listed = np.empty(len(work.nodes), np.uint64), np.zeros(1, np.uint64)
    earners = Credits(empty_slot_index(len(parents)), nodes, listed, np.zeros(len(parents) + 1))
    asked = empty_slot_index(len(candidates))
    _appraise_recent(model, work, origins, (parents, candidates), earners, asked, (cost, presence), totals)
    examples = max(totals[0], 1.0)
    means = (sums[:-1] / examples for sums in (cost, earners.earned, presence))
    return Appraisal(int(totals[0]), totals[1] / examples, totals[2] / examples, *means)


@kernel
def _appraise_recent(
    model: Model,
    work: Work,
    origins: Origins | None,
    places: tuple[Places, Places],
    earners: Credits,
    asked: SlotIndex,
    sums: tuple[Means, Means],
    totals: Means,
) -> None:
    """Add up cost, earned and presence of each; totals: examples, products, base features.

    earners, asked  have an index each, still empty: of the parents, and of the candidates
    """
    recent, slots, features, nodes = model.recent, model.table.slots, work.features, work.nodes
    cost, presence = sums
    index_slots(earners.parents, places[0])
    index_slots(asked, places[1])
    for half in range(2):
        first = 0
        for e in range(recent.filled[1 + half]):
            end = recent.ends[half * RECENT_EXAMPLES + e]
            offset = half * RECENT_FEATURES
            span = np.uint64(offset + first), np.uint64(offset + end)
            example = example_features(recent.keys, recent.values, recent.roles, span[0], span[1])
            found, _ = expand(model, example, False, work, origins, earners)  # noqa: FBT003  by position: it is compiled
            totals[0] += 1.0
            totals[1] += end - first  # the constant's products
            totals[2] += end - first
            first = end
            paired = example.paired - example.first
            for number in range(U1, earners.listed[0]):
                size = np.float64(paired - nodes[number]["first"])
                totals[1] += size
                cost[earners.numbers[number]] += size
            for t in range(found):
                owner = slots[features.slot[t]]
                owner["active"] = 0
                presence[position_of(asked, features.slot[t])] += 1.0
