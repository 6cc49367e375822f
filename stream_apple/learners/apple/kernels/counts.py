"""Counts of examples by label, for each monomial: what its presence says about the label, whatever its weight.

Each learned example adds its importance weight to one of the two counts of every monomial of the example that has a
slot, from the monomial's first example on. When another monomial gets the slot, its counts start at 0. The constant is
in every example, so its counts are the totals of the two classes. Counts do not fade, nor do the accumulators of the
weights; it is the weights that follow a stream that drifts.

A monomial that got its slot late seems rarer than it is, but equally so in both classes: ratios are right from its
first example on if the share of the classes does not change.
"""

import math

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.update import Target
from stream_apple.learners.apple.state.model import Model
from stream_apple.learners.apple.state.table import Element, Index
from stream_apple.learners.apple.state.work import ActiveFeatures, BaseFeatures, Origins, Work


@part
def take_attributes(origins: Origins, example: BaseFeatures) -> None:
    """Write the keys of the example's base features to `origins.base`: here each is its own attribute."""
    for f in range(example.first, example.stop):
        origins.base[f - example.first] = example.keys[f]


@part
def note_newcomers(
    base: BaseFeatures, work: Work, origins: Origins, exhaustive: bool, passed: Index, wanted: Index
) -> None:  # fmt: skip
    """Write the origins of newcomers[wanted:wanted + passed], which are products.misses[:passed]."""
    products = work.products
    for m in range(passed):
        at = np.uint64(products.misses[m])
        number = products.node[at]
        node, origin, noted = work.nodes[number], origins.nodes[number], origins.newcomers[wanted + m]
        f = node["first"] + (at - np.uint64(node["start"]))
        noted["attributes"] = origin["attributes"] + origins.base[f - base.first]
        degree, order = node["degree"], np.uint8(0)
        if degree == 0:
            order = np.uint8(1)
        elif degree == 1:
            order = np.uint8(0) if node["key"] == base.keys[f] else np.uint8(2)
        elif exhaustive and origin["order"] > 0 and origin["last"] != base.keys[f]:
            order = origin["order"] + np.uint8(1)
        noted["order"] = order


@part
def note_nodes(base: BaseFeatures, work: Work, origins: Origins, head: Index, tail: Index) -> None:
    """Write the origins of the nodes before `tail`, products of node `head` with the last of the paired features."""
    node, origin = work.nodes[head], origins.nodes[head]
    for f in range(node["first"], base.paired):
        noted = origins.nodes[tail - (base.paired - f)]
        whole = node["degree"] == 0 or (origin["order"] > 0 and origin["last"] != base.keys[f])
        noted["attributes"] = origin["attributes"] + origins.base[f - base.first]
        noted["last"] = base.keys[f]
        noted["order"] = origin["order"] + np.uint8(1) if whole else np.uint8(0)


@part
def begin_counts(owner: Element, newcomer: Element) -> None:
    """Write the COUNTS of a newcomer: its attributes and order, and no examples."""
    owner["attributes"] = newcomer["attributes"]
    owner["positive"] = 0.0
    owner["negative"] = 0.0
    owner["order"] = newcomer["order"]


@part
def count_example(model: Model, features: ActiveFeatures, found: Index, target: Target) -> None:
    """Add the example's importance to the count of its label, for each of its features[:found]."""
    counts = model.table.counts
    if target.label > 0.0:
        for t in range(found):
            counts[features.slot[t]]["positive"] += target.importance
    else:
        for t in range(found):
            counts[features.slot[t]]["negative"] += target.importance


@part
def information_of(counted: Element, totals: Element) -> float:
    """Return a monomial's summand of the mutual information of its tuple and the label, in nats, at least 0.

    P(F) * KL(P(Y | F) || P(Y)): the sum of these over the values of a tuple is the tuple's mutual information with the
    label, I(T; Y) = sum of P(F, y) * log(P(F, y) / (P(F) * P(y))).
    """
    all_of_it = counted["positive"] + counted["negative"]
    all_examples = totals["positive"] + totals["negative"]
    if not all_of_it > 0.0 or not all_examples > 0.0:
        return 0.0
    return max(
        _summand(counted["positive"], all_of_it, totals["positive"], all_examples)
        + _summand(counted["negative"], all_of_it, totals["negative"], all_examples),
        0.0,
    )


@part
def _summand(both: float, of_it: float, of_class: float, of_all: float) -> float:
    """Return P(F, y) * log(P(F, y) / (P(F) * P(y))), or 0 where nothing was seen."""
    if not both > 0.0 or not of_class > 0.0:
        return 0.0
    ratio = both / of_it * (of_all / of_class)
    # The ratio overflows or underflows where a class has next to no weight; then the summand is left out.
    return both / of_all * math.log(ratio) if 0.0 < ratio < math.inf else 0.0
