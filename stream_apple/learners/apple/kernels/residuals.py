"""The sums for the paper's second heuristic of parent selection: squared residuals, weighted by each monomial.

Agarwal et al. 2014, section 2.2: E[r^2 m^2] / E[m^2], r being the residual of the score before learning and m the
monomial. For the logistic loss the residual is the loss's derivative. The sums begin with a monomial's first example.
"""

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.update import Target
from stream_apple.learners.apple.state.model import Model
from stream_apple.learners.apple.state.table import Element, Index
from stream_apple.learners.apple.state.work import ActiveFeatures
from stream_apple.learners.loss_functions import squared_residual


@part
def add_residuals(model: Model, features: ActiveFeatures, found: Index, target: Target) -> None:
    """Add the example to both sums of each of its features[:found]."""
    squared = squared_residual(model.rule.loss, target.score, target.label)
    for t in range(found):
        sums = model.table.residuals[features.slot[t]]
        square = target.importance * np.float64(features.x[t]) * np.float64(features.x[t])
        sums["residuals"] += squared * square
        sums["squares"] += square


@part
def begin_residuals(sums: Element) -> None:
    """Set both sums of a newcomer's RESIDUALS to 0."""
    sums["residuals"] = 0.0
    sums["squares"] = 0.0
