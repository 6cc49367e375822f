"""What features are called that were made of others: `age\u2208[25,37)`, and `age\u221230` for a centred value."""

from typing import NamedTuple

import numpy as np

from stream_apple.core.learner.preparation.intervals import CENTRED, Intervals, interval_keys, keys_of_centred

_IN = "\u2208"
_MINUS = "\u2212"
_INFINITE = "\u221e"


class Derived(NamedTuple):
    """The key of the feature that a derived one was made of, and what is appended to its name."""

    feature: int
    ending: str


def derived_names(intervals: Intervals, *, lasting: bool) -> dict[int, Derived]:
    """Return the derived features by key: all intervals, and all centred values; `lasting`: see `keys_of_centred`."""
    found: dict[int, Derived] = {}
    centred = keys_of_centred(intervals, lasting=lasting).tolist()
    start = 0
    for number, stop in enumerate(intervals.ends.tolist()):
        feature, cuts = int(intervals.features[number]), intervals.cuts[start:stop]
        ends = [f"{_MINUS}{_INFINITE}", *(_shown(cut) for cut in cuts), _INFINITE]
        for at, key in enumerate(interval_keys(feature, cuts).tolist() if len(cuts) else ()):
            opening = "[" if at else "("
            found[key] = Derived(feature, f"{_IN}{opening}{ends[at]},{ends[at + 1]})")
        if intervals.kept[number] == CENTRED:
            centre = intervals.centres[number]
            sign = "+" if centre < 0 else _MINUS
            found[centred[number]] = Derived(feature, f"{sign}{_shown(abs(centre))}")
        start = stop
    return found


def _shown(cut: np.float32) -> str:
    return f"{cut:.6g}".replace("-", _MINUS)
