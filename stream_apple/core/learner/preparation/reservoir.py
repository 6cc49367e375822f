"""The first examples of a stream, kept until cuts are fitted on them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.options import RESERVOIR_ENTRIES, Options
from stream_apple.core.learner.preparation.cuts import mdl_cuts, quantile_cuts
from stream_apple.core.learner.preparation.intervals import CENTRED, IT, NOTHING, PRESENT, Intervals, no_intervals

FEWEST, FEWEST_OF_BOTH = 16, 5
"""Times that a feature must have been seen to be cut: intervals of fewer values would be noise. The second holds where
the value is learned beside its interval (`auto`), so that little is lost by a bad cut."""
COMMON, TABLE = 0.5, 0.2
"""Share of examples that have a common feature; and the least share of them among the numeric ones. Of tables it is a
third and more, of text a fortieth and less."""


class Reservoir(NamedTuple):
    """`r` examples with `m` features in all.

    sizes       int64[r]    how many features each has
    labels      float64[r]
    keys        uint64[m]   and so are values, spaces and attributes as of `Batch`; the last two are 0 if nobody asked
    """

    sizes: NDArray[np.int64]
    labels: NDArray[np.float64]
    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    spaces: NDArray[np.uint64]
    attributes: NDArray[np.uint64]


def empty_reservoir() -> Reservoir:
    """Of no example."""
    nothing = np.zeros(0, np.uint64)
    return Reservoir(np.zeros(0, np.int64), np.zeros(0), nothing, np.zeros(0, np.float32), nothing, nothing)


def fill(reservoir: Reservoir, batch: Batch, most: int) -> tuple[Reservoir, int, bool]:
    """Take in the examples that are learned, in order, until there are `most`, or the next no longer fits.

    Returns the reservoir, the first row that is behind it, and whether it is full.
    """
    learned = np.flatnonzero(~np.isnan(batch.labels) & (batch.weights > 0.0))
    sizes = np.diff(batch.indptr)[learned]
    room = min(
        most - len(reservoir.sizes),
        int(np.searchsorted(sizes.cumsum(), RESERVOIR_ENTRIES - len(reservoir.keys), side="right")),
    )
    full = len(learned) > room or len(reservoir.sizes) + len(learned) == most
    taken = learned[:room]
    if not full:
        stop = len(batch.labels)
    elif len(reservoir.sizes) + len(taken) == most:
        stop = int(taken[-1]) + 1 if len(taken) else 0
    else:
        stop = int(learned[room])
    part = batch.select(taken)
    nothing = np.zeros(len(part.keys), np.uint64)
    new = Reservoir(
        np.diff(part.indptr),
        part.labels,
        part.keys,
        part.values,
        part.spaces if len(part.spaces) else nothing,
        part.attributes if len(part.attributes) else nothing,
    )
    pairs: Any = zip(reservoir, new, strict=True)
    joined = Reservoir(*(np.concatenate(pair) for pair in pairs))
    return joined, stop, full


def fit(reservoir: Reservoir, options: Options, spaces: NDArray[np.uint64]) -> Intervals:
    """Cut the numeric features: those with two values besides 0, seen at least FEWEST times.

    None of them where most are absent from most examples, less than TABLE being COMMON: these are words, of which
    presence says more than any interval.

    spaces  keys of the namespaces whose features are looked at; none: all
    """
    examples = len(reservoir.sizes)
    rows = np.repeat(np.arange(examples), reservoir.sizes)
    positive = _classes(reservoir.labels)
    order = np.argsort(reservoir.keys, kind="stable")
    features, starts, counts = np.unique(reservoir.keys[order], return_index=True, return_counts=True)
    numeric: list[tuple[int, NDArray[np.int64], NDArray[np.bool_]]] = []
    fewest = FEWEST_OF_BOTH if options.discretise == "auto" else FEWEST
    for at in np.flatnonzero(counts >= fewest).tolist():
        mine = order[starts[at] : starts[at] + counts[at]]
        values = reservoir.values[mine]
        if values.min() == values.max() or (len(spaces) and reservoir.spaces[mine[0]] not in spaces):
            continue
        present = np.zeros(examples, np.bool_)
        present[rows[mine]] = True
        numeric.append((at, mine, present))
    common = sum(bool(present.mean() >= COMMON) for _, _, present in numeric)
    if common < TABLE * len(numeric):
        return no_intervals()
    found: list[tuple[int, int, NDArray[np.float32], bool]] = []
    for at, mine, present in numeric:
        values, classes, dense = reservoir.values[mine], positive[rows[mine]], bool(present.mean() >= PRESENT)
        if dense:
            values = np.concatenate([values, np.zeros(examples - int(present.sum()), np.float32)])
            classes = np.concatenate([classes, positive[~present]])
        cuts = (
            mdl_cuts(values, classes) if options.discretise == "mdl" else quantile_cuts(values, int(options.bins or 0))
        )
        if len(cuts):
            found.append((at, int(mine[0]), cuts + np.float32(0.0), dense))
    if not found:
        return no_intervals()
    kept = np.array([_kept(options, reservoir.labels, dense=each[3]) for each in found], np.uint8)
    numbers, first = np.array([each[0] for each in found]), np.array([each[1] for each in found])
    return Intervals(
        features[numbers],
        np.cumsum([len(each[2]) for each in found]),
        np.concatenate([each[2] for each in found]),
        np.array([each[3] for each in found], np.uint8),
        kept,
        reservoir.spaces[first],
        reservoir.attributes[first],
    )


def _kept(options: Options, labels: NDArray[np.float64], *, dense: bool) -> np.uint8:
    """What of a feature's value is learned besides its interval.

    Centred values where there are two labels: on every such set that was tried they are better than the values as they
    are. Labels that are numbers may be large, and weights are slow to follow them but for features with outliers: there
    values stay as they are. So do those of features that most examples lack, where 0 is nothing and not a number.
    """
    if options.discretise != "auto":
        return NOTHING
    return CENTRED if dense and len(np.unique(labels)) == 2 else IT


def _classes(labels: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Two classes: the larger of two labels; of more, those above the median."""
    distinct = np.unique(labels)
    middle = distinct.mean() if len(distinct) == 2 else np.median(labels)
    return labels > middle
