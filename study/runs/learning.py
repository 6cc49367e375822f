"""One run of our own learner, and what is kept of it."""

import statistics

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.errors import ModelError
from stream_apple.offline.evaluation import Run, evaluate
from stream_apple.offline.schedule import Schedule, epoch_ends
from study.methods import METHODS
from study.runs.picky import evaluate_picky
from study.tasks import LossesSoFar, Measures, Task

REPEATED_S = 5.0
"""A timed run that took less is repeated, up to REPEATS times."""
REPEATS = 3


def schedule_of(task: Task) -> Schedule:
    """Return the split and the epochs of a task."""
    return Schedule(epochs=max(task.epochs, 1), seed=task.seed)


def learn(task: Task, batch: Batch) -> Measures:
    """Do one pass; a model that overflows has failed. Timed runs are repeated, and the median of the seconds counts."""
    try:
        run, tested = _one_pass(task, batch)
        seconds = [run.result.seconds]
        while task.purpose == "timing" and len(seconds) < REPEATS and seconds[0] < REPEATED_S:
            seconds.append(_one_pass(task, batch)[0].result.seconds)
    except ModelError as error:
        return Measures(failure=str(error))
    result = run.result
    return Measures(
        progressive_loss=result.progressive_loss,
        # A picky method's linear predictor has the products too: it is the method itself.
        linear_progressive_loss=result.linear_progressive_loss if tested is None else None,
        progressive_error=result.progressive_error,
        test_loss=result.test_loss,
        test_error=result.test_error,
        features_per_example=result.features_per_example,
        parents=result.parents,
        seconds=statistics.median(seconds),
        tested_per_example=tested,
        ends=_ends(run, schedule_of(task), alongside=tested is None) if task.purpose == "error" else (),
    )


def _one_pass(task: Task, batch: Batch) -> tuple[Run, float | None]:
    """Return the run, and how many products an example has that are tested, with a picky method."""
    proposal = METHODS[task.method].proposal
    if proposal is None:
        return evaluate(batch, task.options(), schedule_of(task)), None
    picky = evaluate_picky(batch, task.options(), schedule_of(task), proposal)
    return picky.run, picky.tested


def _ends(run: Run, schedule: Schedule, *, alongside: bool) -> tuple[LossesSoFar, ...]:
    """Return the losses at the end of each epoch; of the linear predictor only if it learns `alongside`."""
    trained = run.trained
    ends = epoch_ends(len(trained.labels), schedule)
    losses = means_at(ends, run.scores.losses, trained)
    linear = means_at(ends, run.losses_of("linear"), trained) if alongside else [None] * len(ends)
    return tuple(LossesSoFar(*row) for row in zip(ends, losses, linear, strict=True))


def means_at(ends: list[int], losses: NDArray[np.float64], trained: Batch) -> list[float]:
    """Return the mean loss, per unit of importance weight, of the first so many examples; all have labels."""
    places = np.array(ends) - 1
    weight = np.cumsum(trained.weights)[places]
    total = np.cumsum(losses * trained.weights)[places]
    means: list[float] = (total / np.where(weight > 0, weight, 1.0)).tolist()
    return means
