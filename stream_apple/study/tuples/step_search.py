"""The step size of AdaGrad, by trying: a grid of exponents that is made finer around its best."""

from collections.abc import Callable

import numpy as np

INTERVALS = 10
WIDEST = (-6.0, 6.0)
ALIKE = 0.01
"""Of errors: where the best one's neighbours differ by no more, nothing finer is looked for."""
MOST_GRIDS = 8


def search_step(error_of: Callable[[float], float]) -> float:
    """The step of the least error that was met; of equal ones the smallest. `error_of` a step is asked once at most.

    The paper's listing returns the mean of the last grid's ends, a step that was never tried; it stops on a coarse grid
    where errors are flat, and then that step is far off.
    """
    tried: dict[float, float] = {}
    low, high = WIDEST
    for _ in range(MOST_GRIDS):
        grid = [round(float(exponent), 9) for exponent in np.linspace(low, high, INTERVALS + 1)]
        for exponent in grid:
            if exponent not in tried:
                tried[exponent] = error_of(10.0**exponent)
        errors = [tried[exponent] for exponent in grid]
        best = int(np.argmin(errors))
        left, right = max(best - 1, 0), min(best + 1, INTERVALS)
        if max(errors[left], errors[right]) - errors[best] <= ALIKE:
            break
        low, high = grid[left], grid[right]
    best_of_all = min(tried, key=lambda exponent: (tried[exponent], exponent))
    return float(10.0**best_of_all)
