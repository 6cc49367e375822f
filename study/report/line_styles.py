"""How a line of the study looks, the same in all figures: told apart by colour, marker and dashes, any one of them."""

from collections.abc import Sequence
from typing import Any

from study.methods import BASELINES, VOWPAL_CHOICES
from study.report.outcomes import BEST, CHOSEN, VOWPAL_BEST, Line

# Okabe and Ito's colours, which most colour-blind people can tell apart.
_BLACK, _BLUE, _VERMILION, _GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
_PURPLE, _ORANGE, _SKY = "#CC79A7", "#E69F00", "#56B4E9"
_FIXED = {
    "linear": (_BLACK, "o"),
    "quadratic": (_BLUE, "s"),
    "cubic": (_VERMILION, "D"),
    "vw-stage-poly": (_SKY, "X"),
}
_CHOOSING = {BEST: (_PURPLE, "*"), CHOSEN: (_ORANGE, "P")}
_OTHERS = ((_GREEN, "h"), (_SKY, "p"), (_PURPLE, "8"), (_ORANGE, "d"))
_GRID_MARKERS = "^v<>"
_DASHES = ("-", "--", "-.", ":")


def shades(count: int) -> list[Any]:
    """Return colours for so many alphas: the larger, the darker, also in grey."""
    from matplotlib import colormaps
    from numpy import linspace

    return [colormaps["viridis"](place) for place in linspace(0.9, 0.1, count)] if count > 1 else [_GREEN]


def lines_to_draw(lines: Sequence[Line]) -> list[Line]:
    """Return the lines to draw.

    Vowpal Wabbit's baselines are left out where ours, the same to a few per mille, are there; and all of its settings
    but the protocol's where there is a line for the best of them.
    """
    labels = {line.label for line in lines}
    hidden = {f"vw-{name}" for name in BASELINES if name in labels}
    if VOWPAL_BEST in labels:
        hidden |= set(VOWPAL_CHOICES) - {"vw-stage-poly"}
    return [line for line in lines if line.label not in hidden]


def style_of(lines: Sequence[Line], line: Line) -> dict[str, Any]:
    """Return colour, marker and dashes of `line` among all `lines`."""
    grids = list(dict.fromkeys(each.method for each in lines if each.alpha is not None))
    if line.alpha is not None:
        grid = [each for each in lines if each.method == line.method]
        place = grids.index(line.method)
        return _style(shades(len(grid))[grid.index(line)], _GRID_MARKERS[place % 4], place)
    for suffix, (colour, marker) in _CHOOSING.items():
        method = line.label.removesuffix(suffix)
        if line.label.endswith(suffix) and method in grids:
            return _style(colour, marker, grids.index(method))
    if line.label in _FIXED:
        return _style(*_FIXED[line.label], int(line.program != "linear"))
    others = [each.label for each in lines if each.alpha is None and each.label not in _FIXED]
    place = others.index(line.label)
    return _style(*_OTHERS[place % len(_OTHERS)], 2 + place // len(_OTHERS))


def _style(colour: object, marker: str, dashes: int) -> dict[str, Any]:
    return {"color": colour, "marker": marker, "linestyle": _DASHES[dashes % len(_DASHES)]}
