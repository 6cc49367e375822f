"""Which tuples are kept: those that say most about the label (Zaidi et al.: sALR^n, and level by level hsALR^n).

The score of a tuple by mi is its mutual information with the label, in nats, from raw counts: the sum over its features
F and over y of P(F, y) * log(P(F, y) / (P(F) * P(y))). Examples that have none of its features in the table, because an
attribute is absent, count as one more value. The score by cv is the sum of the gains of its features (`learning.py`).
Of equal scores the smaller key wins.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.tuples.model import EXAMPLES, LEVEL, SELECTED_AT, TupleModel, keep_only
from stream_apple.learners.tuples.options import MOST_TUPLES

FEWEST_EXAMPLES = 1000
"""The number of examples of a level before which nothing is selected: the counts of fewer say little."""


def select_tuples(model: TupleModel, share: float) -> tuple[TupleModel, int]:
    """Keep the best `share` of the tuples of the current level, and empty the slots of the others.

    Returns the model with the selected tuples, and how many features lost their slots. It is the same model if all
    levels are selected already, if there were too few examples, or if all of them have the same label and mi is asked.
    """
    level, examples = int(model.counts[LEVEL]), int(model.counts[EXAMPLES])
    if level > model.settings.order or examples - int(model.counts[SELECTED_AT]) < FEWEST_EXAMPLES:
        return model, 0
    slots, totals = model.slots[:-1], model.slots[-1]
    features = np.flatnonzero(slots["degree"] == level)
    tuples, of_feature = np.unique(slots["attributes"][features], return_inverse=True)
    if model.settings.ablates:
        scores = sums_by_tuple(of_feature, slots["gain"][features])
    else:
        labels = np.array([totals["positive"], totals["negative"]])
        if not labels.all():
            return model, 0
        counts = np.array([slots["positive"][features], slots["negative"][features]])
        scores = information(counts, of_feature, labels)
    best = np.lexsort((tuples, -scores))[: max(int(np.ceil(share * len(tuples))), 1)]
    best = best[: MOST_TUPLES - len(model.chosen)]
    kept = np.ones(len(slots), np.bool_)
    if level > 1 or model.settings.order == 1:
        kept[features[~np.isin(of_feature, best)]] = False
    slots["gain"] = 0.0  # the next level is judged by its own examples
    model.counts[[LEVEL, SELECTED_AT]] = level + 1, examples
    return model._replace(chosen=np.union1d(model.chosen, tuples[best])), keep_only(model, kept)


def information(
    counts: NDArray[np.float64], of_feature: NDArray[np.int64], labels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mutual information of each tuple and the label, float64[t], in nats.

    counts      float64[2, f], the importance of each feature's examples by label
    of_feature  int64[f], which tuple each feature is of
    labels      float64[2], the importance of all examples by label, above 0
    """
    known = np.array([sums_by_tuple(of_feature, each) for each in counts])
    # An example with duplicate features counts twice, so the features of a tuple may outnumber the examples.
    absent = np.maximum(labels[:, None] - known, 0.0)
    return sums_by_tuple(of_feature, divergence(counts, labels)) + divergence(absent, labels)


def sums_by_tuple(of_feature: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the values of each tuple's features, float64[t]."""
    return np.bincount(of_feature, values).astype(np.float64)


def divergence(counts: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(F) * KL(P(y | F) || P(y)) >= 0 of features with these counts by label, float64[2, n], as float64[n]."""
    total = np.maximum(counts.sum(axis=0), np.finfo(np.float64).tiny)
    ratios = counts / total / (labels / labels.sum())[:, None]
    logs = np.log(np.where(ratios > 0.0, ratios, 1.0))
    summands: NDArray[np.float64] = np.maximum((counts / labels.sum() * logs).sum(axis=0), 0.0)
    return summands
