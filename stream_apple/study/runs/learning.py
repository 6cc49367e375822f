"""One run of our own learner, and what is kept of it."""

import statistics

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.errors import ModelError
from stream_apple.offline.evaluation import Run, Schedule, epoch_ends, evaluate
from stream_apple.study.tasks import LossesSoFar, Measures, Task

REPEATED_S = 5.0
"""A timed run that took less is repeated."""
REPEATS = 3


def schedule_of(task: Task) -> Schedule:
    """The split and the epochs of a task."""
    return Schedule(epochs=max(task.epochs, 1), seed=task.seed)


def learn(task: Task, batch: Batch) -> Measures:
    """Do one pass; a model that overflows has failed. Timed runs are repeated, and the median of the seconds counts."""
    options, schedule = task.options(), schedule_of(task)
    try:
        run = evaluate(batch, options, schedule)
        seconds = [run.result.seconds]
        while task.purpose == "timing" and len(seconds) < REPEATS and seconds[0] < REPEATED_S:
            seconds.append(evaluate(batch, options, schedule).result.seconds)
    except ModelError as error:
        return Measures(failure=str(error))
    result = run.result
    return Measures(
        progressive_loss=result.progressive_loss,
        linear_progressive_loss=result.linear_progressive_loss,
        progressive_error=result.progressive_error,
        test_loss=result.test_loss,
        test_error=result.test_error,
        features_per_example=result.features_per_example,
        parents=result.parents,
        seconds=statistics.median(seconds),
        ends=_ends(run, schedule) if task.purpose == "error" else (),
    )


def _ends(run: Run, schedule: Schedule) -> tuple[LossesSoFar, ...]:
    trained = run.trained
    ends = epoch_ends(len(trained.labels), schedule)
    losses = means_at(ends, run.scores.losses, trained)
    linear = means_at(ends, run.linear_losses(), trained)
    return tuple(LossesSoFar(*row) for row in zip(ends, losses, linear, strict=True))


def means_at(ends: list[int], losses: NDArray[np.float64], trained: Batch) -> list[float]:
    """Mean loss, per unit of importance weight, of the first so many examples; all have labels."""
    places = np.array(ends) - 1
    weight = np.cumsum(trained.weights)[places]
    total = np.cumsum(losses * trained.weights)[places]
    means: list[float] = (total / np.where(weight > 0, weight, 1.0)).tolist()
    return means
