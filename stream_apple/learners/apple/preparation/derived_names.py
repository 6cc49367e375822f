"""Names of features that are made of numbers: hats, `age\u224831`, and centered values, `age\u221230`."""

from typing import NamedTuple

import numpy as np

from stream_apple.learners.apple.preparation.splines import Splines, centered_keys, hat_keys

_ABOUT = "\u2248"
_MINUS = "\u2212"


class Derived(NamedTuple):
    """What a derived feature was made of: a feature's key, and the text that is appended to that feature's name."""

    feature: int
    ending: str


def derived_names(splines: Splines) -> dict[int, Derived]:
    """Return the derived features by key: all hats, and all centered values."""
    found: dict[int, Derived] = {}
    fields = splines.features.tolist(), centered_keys(splines.features).tolist(), splines.points_of_each()
    for feature, centered, points, center, dense in zip(*fields, splines.centers, splines.dense, strict=True):
        for point, key in zip(points, hat_keys(feature, points).tolist(), strict=True):
            found[key] = Derived(feature, f"{_ABOUT}{_shown(point)}")
        if dense:
            sign = "+" if center < 0 else _MINUS
            found[centered] = Derived(feature, f"{sign}{_shown(abs(center))}")
    return found


def _shown(number: np.float32) -> str:
    return f"{number:.6g}".replace("-", _MINUS)
