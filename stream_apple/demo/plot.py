"""Curves in braille characters: 2 x 4 dots in each cell of the terminal, colours by cell."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

_GRID = 0.05
_ACROSS, _DOWN = 2, 4
_EMPTY = 0x2800  # the braille character without dots
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a character, by row and column."""


class Curve(NamedTuple):
    """A curve: points by growing x, from 0 to 1, drawn over the curves before it."""

    points: Sequence[tuple[float, float]]
    style: str


class Range(NamedTuple):
    """The range of values that the vertical axis shows."""

    low: float
    high: float


def range_of(curves: Sequence[Curve]) -> Range:
    """Return the range that holds every point, on a grid so that it changes seldom."""
    values = [y for curve in curves for _, y in curve.points]
    if not values:
        return Range(0.0, 1.0)
    low = _GRID * math.floor(min(values) / _GRID - 0.1)
    high = _GRID * math.ceil(max(values) / _GRID + 0.1)
    return Range(max(low, 0.0), high)


def draw(curves: Sequence[Curve], shown: Range, width: int, height: int) -> list[Text]:
    """Return `height` lines of `width` characters, the highest first."""
    bits = [[0] * width for _ in range(height)]
    styles = [[""] * width for _ in range(height)]
    for curve in curves:
        for column, row in _dots(curve.points, shown, width * _ACROSS, height * _DOWN):
            cell, line = column // _ACROSS, row // _DOWN
            bits[line][cell] |= _DOTS[row % _DOWN][column % _ACROSS]
            styles[line][cell] = curve.style
    return [
        Text.assemble(*((chr(_EMPTY + dots), style) for dots, style in zip(*pair, strict=True)))
        for pair in zip(bits, styles, strict=True)
    ]


def _dots(points: Sequence[tuple[float, float]], shown: Range, columns: int, rows: int) -> list[tuple[int, int]]:
    """Return the dots (column, row) of straight lines from point to point; rows count from the top."""
    dots = []

    def place(x: float, y: float) -> tuple[float, float]:
        return x * (columns - 1), (shown.high - y) / (shown.high - shown.low) * (rows - 1)

    for (x0, y0), (x1, y1) in itertools.pairwise(itertools.starmap(place, points)):
        # As many steps as the longer side has dots: no gap in either direction.
        steps = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
        for step in range(steps + 1):
            share = step / steps
            dots.append((round(x0 + share * (x1 - x0)), round(y0 + share * (y1 - y0))))
    return dots
