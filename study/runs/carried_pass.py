"""One pass of the product over a carried set, with no settings but the loss and those that are given."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.options import Options
from stream_apple.offline.evaluation import Run, evaluate
from stream_apple.offline.schedule import Schedule
from study.carried_sets import CarriedSet

EARLY = 500
"""The first examples, whose error is measured apart."""
BEFORE, WINDOW = 1_000, 250
"""After a flip, the error of WINDOW examples is compared with that of the BEFORE examples that came before."""
_IN_ORDER = Schedule(epochs=6, test_fraction=0.0, keep_order=True)


class CarriedFigures(NamedTuple):
    """Figures of a pass. An error is a share of wrong labels; of a regression it is the squared loss.

    early         the error of the first EARLY examples
    late          the loss of the last fifth
    microseconds  an example
    back          how many examples after a flip the error was within a tenth of the earlier one; infinite if it never
                  was, NaN without a flip
    """

    error: float
    loss: float
    early: float
    late: float
    features: float
    microseconds: float
    back: float


def pass_over_carried(given: CarriedSet, chosen: Mapping[str, Any]) -> CarriedFigures:
    """Learn the set in its order, in one pass of six epochs.

    chosen  fields of `Options`, besides loss and classes
    """
    options = Options(loss=given.loss, classes=given.classes, **chosen)
    run = evaluate(given.batch, options, _IN_ORDER)
    errors, losses, size = _errors(given, run), run.scores.losses, len(given.batch.labels)
    return CarriedFigures(
        error=float(errors.mean()),
        loss=float(losses.mean()),
        early=float(errors[:EARLY].mean()),
        late=float(losses[-size // 5 :].mean()),
        features=run.result.features_per_example or 0.0,
        microseconds=1e6 * run.result.seconds / size,
        back=_back(errors, given.flip),
    )


def _errors(given: CarriedSet, run: Run) -> NDArray[np.float64]:
    """Return the error of each example, float64[n]."""
    labels, predictions = given.batch.labels, run.scores.predictions
    wrong: NDArray[np.bool_]
    if given.loss == "softmax":
        wrong = predictions != labels
    elif given.loss == "logistic":
        wrong = predictions * labels <= 0.0
    elif len(np.unique(labels)) == 2:
        wrong = (predictions > 0.5) != (labels > 0.5)
    else:
        return run.scores.losses
    return wrong.astype(np.float64)


def _back(errors: NDArray[np.float64], flip: int) -> float:
    if not flip:
        return float("nan")
    level = errors[flip - BEFORE : flip].mean()
    means = np.convolve(errors[flip:], np.ones(WINDOW) / WINDOW, "valid")
    within = np.flatnonzero(means <= 1.1 * level)
    return float(within[0] + WINDOW) if len(within) else float("inf")
