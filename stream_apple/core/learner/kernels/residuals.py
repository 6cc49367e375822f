"""What parents are selected by in the paper's second heuristic: how much of the squared residuals a monomial meets.

Agarwal et al. 2014, section 2.2: E[r^2 m^2] / E[m^2], r being the residual of the score before learning and m the
monomial. For the logistic loss the residual is the loss's derivative. Kept from a monomial's first example on.
"""

import numpy as np

from stream_apple.core.jit import part
from stream_apple.core.learner.kernels.update import Target, squared_slope
from stream_apple.core.learner.state.model import Model
from stream_apple.core.learner.state.table import Element, Index
from stream_apple.core.learner.state.work import ActiveFeatures


@part
def add_residuals(model: Model, features: ActiveFeatures, found: Index, target: Target) -> None:
    """Add the example to the two sums of each of its features[:found]."""
    squared = squared_slope(model.rule.logistic, target.score, target.label)
    if not model.rule.logistic:
        squared *= 0.25  # the derivative is twice the residual
    for t in range(found):
        sums = model.table.residuals[features.slot[t]]
        square = target.importance * np.float64(features.x[t]) * np.float64(features.x[t])
        sums["residuals"] += squared * square
        sums["squares"] += square


@part
def begin_residuals(sums: Element) -> None:
    """Begin the RESIDUALS of a newcomer."""
    sums["residuals"] = 0.0
    sums["squares"] = 0.0
