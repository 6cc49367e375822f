"""Numbers become a few values each: cuts are found on examples that are learned, and are applied to all."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.learner.preparation.cuts import mdl_cuts
from stream_apple.study.tuples.attributes import AttributeTable, Codes

CutRule = Literal["quantile", "mdl"]
BINS = 12


class DiscreteTable(NamedTuple):
    """`n` examples with `a` attributes of few values.

    names          of the attributes
    codes          int32[n, a]: values, below their attribute's cardinality
    cardinalities  int64[a]
    labels         int32[n]: classes
    classes        how many there are
    """

    names: tuple[str, ...]
    codes: Codes
    cardinalities: NDArray[np.int64]
    labels: Codes
    classes: int


def discretised(table: AttributeTable, learned: NDArray[np.int64], how: CutRule, bins: int = BINS) -> DiscreteTable:
    """All examples of the table, by cuts that are found on the rows `learned`.

    Attributes that have one value there are left out: they say nothing, and log θ of their only value is 0. If that is
    all of them, the last is left in, for there to be one.
    """
    made: list[Codes] = []
    cardinalities, names = [], []
    for place, name in enumerate(table.names):
        values = table.values[:, place]
        if table.is_category[place]:
            codes = values.astype(np.int32)
        else:
            seen = values[learned]
            cuts = (
                equal_frequency_cuts(seen, bins)
                if how == "quantile"
                else fayyad_irani_cuts(seen, table.labels[learned])
            )
            codes = np.searchsorted(cuts, values, side="right").astype(np.int32)
        if len(np.unique(codes[learned])) > 1 or (not made and place == len(table.names) - 1):
            made.append(codes)
            names.append(name)
            cardinalities.append(int(codes.max()) + 1)
    return DiscreteTable(
        tuple(names), np.column_stack(made), np.array(cardinalities, np.int64), table.labels, len(table.classes)
    )


def equal_frequency_cuts(values: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """At most `bins` - 1 cuts, ascending, between which about equally many of the values lie.

    A value is in the bin after the last cut that is not above it. Where a value has several bins' share, they are one.
    """
    quantiles = np.quantile(values, np.arange(1, bins) / bins, method="inverted_cdf")
    cuts = np.unique(quantiles)
    inside: NDArray[np.float64] = cuts[cuts > values.min()]
    return inside


def fayyad_irani_cuts(values: NDArray[np.float64], labels: Codes) -> NDArray[np.float64]:
    """Cuts by class entropy, ascending: those of `mdl_cuts`, half way down to the values below them.

    A learner's own are values that it has seen. Here other examples are cut as well, and so it is in the paper.
    """
    above = mdl_cuts(values, labels)
    distinct = np.unique(values)
    below = distinct[np.searchsorted(distinct, above) - 1]
    middle = below + (above - below) / 2
    return np.where((below < middle) & (middle <= above), middle, above)
