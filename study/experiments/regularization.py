"""Regularization: what L2 and L1 do to the error of a linear model, and to its size (Cohen's lecture)."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.learners.hashed.learner import HashedLearner
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.offline.evaluation import split
from stream_apple.offline.schedule import Schedule
from study.experiments.experiment import Experiment, Inquiry, StudyFinding, TableCell
from study.preparation import load_set
from study.runs.one_epoch import learn_once, predictions_of

PENALTIES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)
BITS = 22  # so that few words share a weight


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    sets = {name: load_set(data_set, inquiry.rows, inquiry.out / "sets") for name, data_set in inquiry.sets.items()}
    done, steps = 0, 2 * len(sets) * len(PENALTIES)
    for which in ("l2", "l1"):
        rows: list[tuple[TableCell, ...]] = []
        for name, batch in sets.items():
            for penalty in PENALTIES:
                inquiry.tell("penalties", done, steps)
                rows.append((name, f"{penalty:g}", *_shown(batch, {which: penalty}, inquiry.seeds)))
                done += 1
        inquiry.tell("penalties", done, steps)
        yield StudyFinding(
            which,
            f"{which.upper()}: linear model, one pass, mean of {inquiry.seeds} splits",
            ("set", which, "test error", "weights that are not 0"),
            tuple(rows),
        )


def _shown(batch: Batch, penalty: dict[str, Any], seeds: int) -> tuple[float, int]:
    """Return the mean test error, and the mean number of weights that are not zero, without the constant's."""
    options = HashedOptions(loss="logistic", bits=BITS, **penalty)
    errors, counts = [], []
    for seed in range(seeds):
        trained, tested = split(batch, Schedule(seed=seed))
        learner = HashedLearner(options)
        learn_once(learner, trained)
        # The share of log-odds that are on the wrong side, for labels -1 and 1.
        errors.append(float(((predictions_of(learner, tested) > 0.0) != (tested.labels > 0.0)).mean()))
        counts.append(np.count_nonzero(learner.weights()[:-1]))
    return fmean(errors), round(fmean(counts))


EXPERIMENT = Experiment(_run, ("20news",))
