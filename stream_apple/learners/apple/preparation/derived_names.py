"""Names of features that are made of numbers: hats, `age\u224831`, and centered values, `age\u221230`."""

import numpy as np

from stream_apple.learners.apple.preparation.splines import Splines, centered_keys, hat_keys
from stream_apple.learners.port import Factor

_ABOUT = "\u2248"
_MINUS = "\u2212"


def derived_names(splines: Splines) -> dict[int, Factor]:
    """Return the derived features by key: all hats, and all centered values."""
    found: dict[int, Factor] = {}
    fields = splines.features.tolist(), centered_keys(splines.features).tolist(), splines.points_of_each()
    for feature, centered, points, center, dense in zip(*fields, splines.centers, splines.dense, strict=True):
        for point, key in zip(points, hat_keys(feature, points).tolist(), strict=True):
            found[key] = Factor(feature, f"{_ABOUT}{_shown(point)}")
        if dense:
            sign = "+" if center < 0 else _MINUS
            found[centered] = Factor(feature, f"{sign}{_shown(abs(center))}")
    return found


def _shown(number: np.float32) -> str:
    return f"{number:.6g}".replace("-", _MINUS)
