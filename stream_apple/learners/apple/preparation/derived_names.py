"""Names of features made of others: intervals `age\u2208[25,37)`, hats `age\u224831`, centred values `age\u221230`."""

from typing import NamedTuple

import numpy as np

from stream_apple.learners.apple.preparation.intervals import CENTRED, Form, Intervals, keys_of_centred, keys_of_values

_IN = "\u2208"
_ABOUT = "\u2248"
_MINUS = "\u2212"
_INFINITE = "\u221e"


class Derived(NamedTuple):
    """What a derived feature was made of: a feature's key, and the text that is appended to that feature's name."""

    feature: int
    ending: str


def derived_names(intervals: Intervals, form: Form) -> dict[int, Derived]:
    """Return the derived features by key: all intervals or hats, and all centred values."""
    found: dict[int, Derived] = {}
    centred = keys_of_centred(intervals, form).tolist()
    for number, cuts in enumerate(intervals.cuts_of_each()):
        feature = int(intervals.features[number])
        ends = [f"{_MINUS}{_INFINITE}", *(_shown(cut) for cut in cuts), _INFINITE]
        for at, key in enumerate(keys_of_values(feature, cuts, form).tolist() if len(cuts) else ()):
            if form.spline:
                ending = f"{_ABOUT}{ends[at + 1]}"
            else:
                ending = f"{_IN}{'[' if at else '('}{ends[at]},{ends[at + 1]})"
            found[key] = Derived(feature, ending)
        if intervals.kept[number] == CENTRED:
            centre = intervals.centres[number]
            sign = "+" if centre < 0 else _MINUS
            found[centred[number]] = Derived(feature, f"{sign}{_shown(abs(centre))}")
    return found


def _shown(cut: np.float32) -> str:
    return f"{cut:.6g}".replace("-", _MINUS)
