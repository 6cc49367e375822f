"""The settings of a study: methods, seeds, rates and epochs, and how many rows a set may have."""

from typing import NamedTuple

from stream_apple.learners.apple.options import LossName, Options

GRID = (0.06, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Learning rates to choose from."""

ALPHAS = (0.125, 0.25, 0.5, 0.75, 1.0)
"""The paper's exponents."""


class StudySettings(NamedTuple):
    """The protocol. Two studies of equal settings, files and versions have equal results, except for seconds.

    methods  names of `study.methods.METHODS`, in the order in which they are shown
    alphas   for methods that have a grid; the largest one is that of the claims
    seeds    splits 0 .. seeds - 1
    rows     at most so many of a set, drawn by a fixed seed
    rates    learning rates to choose from, by the progressive loss of seed 0; a single one is used as it is
    epochs   numbers of equal epochs; tables and figures show the first
    bits     of every method's table; None: each method's own
    timing   whether seconds are measured
    """

    methods: tuple[str, ...]
    alphas: tuple[float, ...] = ALPHAS
    seeds: int = 3
    rows: int = 50_000
    rates: tuple[float, ...] = GRID
    epochs: tuple[int, ...] = (6,)
    bits: int | None = None
    loss: LossName = Options.loss
    timing: bool = True
