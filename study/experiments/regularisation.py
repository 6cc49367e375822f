"""Regularisation: what L2 and L1 do to the error of a linear model, and to its size."""

from collections.abc import Iterator

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.options import Options
from study.experiments.experiment import Experiment, Inquiry, StudyFinding, TableCell
from study.experiments.splits import learned_splits
from study.preparation import load_set

PENALTIES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)
BITS = 20


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
            f"{which.upper()}: method linear, one pass, mean of {inquiry.seeds} splits",
            ("set", which, "test error", "weights that are not 0"),
            tuple(rows),
        )


def _shown(batch: Batch, penalty: dict[str, float], seeds: int) -> tuple[float, int]:
    """Return the mean test error, and the mean number of features whose weight is not zero."""
    options = Options(method="linear", loss="logistic", bits=BITS, **penalty)  # type: ignore[arg-type]
    errors, counts = [], []
    for learner, error in learned_splits(batch, options, seeds):
        errors.append(error)
        counts.append(np.count_nonzero(learner.slots()["weight"][:-1]))
    return float(np.mean(errors)), round(float(np.mean(counts)))


EXPERIMENT = Experiment(_run, ("20news",))
