"""Which tuples are kept: their scores, and the search that goes by them, of one order or level by level."""

from collections.abc import Callable
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_apple.study.tuples.discretisation import DiscreteTable
from stream_apple.study.tuples.index import FeatureIndex, Members, all_tuples, index_features
from stream_apple.study.tuples.measures import worth_of
from stream_apple.study.tuples.model import Prepared, TupleModel, count_known

Kept = TypeVar("Kept", bound=np.generic)

Scorer = Callable[[Members], NDArray[np.float64]]
"""float64[t]: how much each tuple is worth keeping."""


def information(counts: NDArray[np.int32], of_class: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64[features]: Σ_y P(F,y) log (P(F,y) / (P(F) P(y))) of raw counts, in nats: P(F) KL(P(Y|F) || P(Y)) >= 0.

    counts    [features, classes]
    of_class  [classes]: of the same rows, whether or not they have the feature
    """
    rows = of_class.sum()
    joint = counts / rows
    independent = joint.sum(axis=1, keepdims=True) * (of_class / rows)
    parts = np.zeros_like(joint)
    seen = counts > 0
    parts[seen] = joint[seen] * np.log(joint[seen] / independent[seen])
    summands: NDArray[np.float64] = parts.sum(axis=1)
    return summands


def mutual_information(model: TupleModel, of_class: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64[t]: I(T; Y) of each tuple, in nats: the sum over its features."""
    return np.add.reduceat(information(model.counts, of_class), model.first_features()[:-1])


def errors_without(model: TupleModel, rows: Prepared) -> NDArray[np.float64]:
    """float64[t]: the error that a learned model has on the rows if a tuple says nothing: the greater, the dearer.

    The error is that of `Worth.rmse`, which changes with every prediction; a share of errors hardly would.
    """
    return np.array(
        [worth_of(model.without(rows, which), rows.labels).rmse for which in range(len(model.known.members))]
    )


def keep_best(members: NDArray[Kept], scores: NDArray[np.float64], share: float) -> NDArray[Kept]:
    """The share of tuples, or features, with the greatest scores, at least one, in order; of equal ones the first."""
    if not 0.0 < share <= 1.0:
        raise ValueError(f"expected a share above 0 and at most 1, found {share:g}")
    count = max(round(share * len(members)), 1)
    best = np.argsort(-scores, kind="stable")[:count]
    return members[np.sort(best)]


def select_tuples(table: DiscreteTable, order: int, share: float, score: Scorer) -> Members:
    """sALR: of all tuples of this order, the share that scores best. With a share of 1 nothing is scored."""
    candidates = all_tuples(len(table.cardinalities), order)
    return candidates if share == 1.0 else keep_best(candidates, score(candidates), share)


def select_features(table: DiscreteTable, rows: NDArray[np.int64], order: int, share: float) -> FeatureIndex:
    """hsALR(*): order by order, a share of those features of which all with one attribute less were kept.

    For attributes with so many values that a tuple is all or nothing. The score is the feature's part of the tuple's
    information, see `information`; that tells little of features that are rare.
    """
    of_class = np.bincount(table.labels[rows], minlength=table.classes)
    known = index_features(table, rows, all_tuples(len(table.cardinalities), 1))
    for level in range(1, order + 1):
        is_candidate = np.ones(known.features, np.bool_)
        if level > 1:
            below, found = (
                {tuple(each): place for place, each in enumerate(known.members.tolist())},
                known.find(table.codes, rows),
            )
            known = index_features(table, rows, all_tuples(len(table.cardinalities), level))
            is_candidate = np.zeros(known.features, np.bool_)
            features = known.find(table.codes, rows)
            for which, each in enumerate(known.members.tolist()):
                parts = [below[part] for part in combinations(each, level - 1)]
                # All rows that have a feature have the same of its parts.
                is_candidate[features[(found[:, parts] >= 0).all(axis=1), which]] = True
        if share < 1.0:
            scores = information(count_known(table, rows, known).counts, of_class)
            candidates = np.flatnonzero(is_candidate)
            is_candidate[:] = False
            is_candidate[keep_best(candidates, scores[candidates], share)] = True
        known = known.only(is_candidate)
    return known


def select_by_level(table: DiscreteTable, order: int, share: float, score: Scorer) -> Members:
    """hsALR: order by order, a share of those candidates of which all tuples of one attribute less were kept.

    Where no candidate is left, what is returned is what was kept of the order before. It never sees what shows only
    together: of two fair bits and their exclusive or, each alone says nothing.
    """
    kept = select_tuples(table, 1, share, score)
    for level in range(2, order + 1):
        known = {tuple(each) for each in kept.tolist()}
        every = all_tuples(len(table.cardinalities), level)
        whole = [all(part in known for part in combinations(each, level - 1)) for each in every.tolist()]
        candidates = every[np.array(whole, np.bool_)]
        if not len(candidates):
            return kept
        kept = candidates if share == 1.0 else keep_best(candidates, score(candidates), share)
    return kept
