"""Preparation of data sets: rows are drawn, labels made binary or scaled, and the arrays kept on disk."""

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch, Limits
from stream_apple.errors import InputFileError
from stream_apple.learners.apple.options import MAX_FEATURES_PER_EXAMPLE, LossName
from stream_apple.offline.dataset import read_batch
from stream_apple.whole_files import whole_file
from study.data_sets import DataSet
from study.tasks import Problem

_FORMAT = 1  # raised when the same file and recipe would give other arrays
_DRAW = 20_141  # the seed of the rows that are drawn
_FEWEST_ROWS = 10

_LIMITS = Limits(MAX_FEATURES_PER_EXAMPLE.high - 1, 1 << 30, 1e9, -1e18, 1e18, binary=False)


class SetFacts(NamedTuple):
    """What is known about a prepared set.

    arrays    the file that holds it
    features  how many different features it has
    nonzeros  mean number of non-zeros of an example, the paper's s
    digest    of the file's content and of the recipe
    paper     its name in the paper's tables
    without   methods that are not run on it
    """

    name: str
    arrays: Path
    problem: Problem
    rows: int
    rows_of_file: int
    features: int
    nonzeros: float
    digest: str
    paper: str | None
    without: tuple[str, ...]


def prepare(
    data_set: DataSet, rows: int, loss: LossName, folder: Path, columns: frozenset[str] = frozenset()
) -> SetFacts:
    """Prepare at most `rows` rows of the set, unless that was done before; return its facts.

    columns  fields of `Batch` to fill besides those always filled

    InputFileError for a file that can't be read, that is not what the manifest says, or that the loss can't learn.
    """
    rows = min(rows, data_set.rows or rows)
    try:
        content = hashlib.sha256(data_set.path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputFileError(f"{data_set.path}: expected a readable file, found: {error.strerror}") from None
    recipe = [_FORMAT, content, rows, loss, data_set.problem, data_set.label_range, *sorted(columns)]
    digest = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
    arrays = folder / f"{data_set.name}-{digest}.npz"
    if not arrays.exists():
        _make(data_set, rows, loss, columns, arrays)
    with np.load(arrays) as kept:
        facts = json.loads(str(kept["facts"]))
    return SetFacts(
        name=data_set.name,
        arrays=arrays,
        digest=digest,
        paper=data_set.paper,
        without=data_set.without,
        **facts,
    )


def load_arrays(arrays: Path) -> Batch:
    """Return the arrays of a prepared set of data."""
    with np.load(arrays) as kept:
        return Batch(**{name: kept[name] for name in Batch._fields})


def load_set(data_set: DataSet, rows: int, folder: Path, columns: frozenset[str] = frozenset()) -> Batch:
    """Prepare the set for the logistic loss, and load it; see `prepare`."""
    return load_arrays(prepare(data_set, rows, "logistic", folder, columns).arrays)


def _make(data_set: DataSet, rows: int, loss: LossName, columns: frozenset[str], arrays: Path) -> None:
    batch = read_batch([data_set.path], _LIMITS, columns=columns)
    labelled = np.flatnonzero(~np.isnan(batch.labels))
    if len(labelled) < _FEWEST_ROWS:
        raise InputFileError(
            f"{data_set.path}: expected at least {_FEWEST_ROWS} labelled examples, found {len(labelled)}"
        )
    problem = data_set.problem or ("binary" if len(np.unique(batch.labels[labelled])) == 2 else "regression")
    labels = _labels(batch.labels, labelled, data_set, problem, loss)
    chosen = labelled
    if len(labelled) > rows:
        chosen = np.sort(np.random.default_rng(_DRAW).choice(labelled, rows, replace=False))
    drawn = batch._replace(labels=labels).select(chosen)
    if len(np.unique(drawn.labels)) < 2:
        raise InputFileError(f"{data_set.path}: expected different labels among {len(chosen)} rows, found only one")
    facts = {
        "problem": problem,
        "rows": len(chosen),
        "rows_of_file": len(batch.labels),
        "features": len(np.unique(drawn.keys)),
        "nonzeros": len(drawn.keys) / len(chosen),
    }
    arrays.parent.mkdir(parents=True, exist_ok=True)
    # An aborted run leaves nothing that looks done.
    with whole_file(arrays) as unfinished, unfinished.open("wb") as file:
        np.savez(file, facts=np.array(json.dumps(facts)), **drawn._asdict())


def _labels(
    labels: NDArray[np.float64], labelled: NDArray[np.int64], data_set: DataSet, problem: Problem, loss: LossName
) -> NDArray[np.float64]:
    """Return the labels that are learned: 0 and 1 (logistic loss: -1 and 1), or scaled to the manifest's range."""
    found = np.unique(labels[labelled])
    if problem == "binary":
        if len(found) != 2:
            raise InputFileError(f"{data_set.path}: expected two labels for task 'binary', found {len(found)}")
        lower = -1.0 if loss == "logistic" else 0.0
        return np.where(labels == found[1], 1.0, lower)
    if loss == "logistic":
        raise InputFileError(
            f"{data_set.path}: expected two labels for the logistic loss, found a regression ({len(found)} labels)"
        )
    if data_set.label_range is None:
        return labels
    low, high = data_set.label_range
    span = float(found[-1] - found[0])
    if span == 0.0:
        raise InputFileError(f"{data_set.path}: expected different labels to scale, found {found[0]:g} only")
    scaled: NDArray[np.float64] = low + (labels - found[0]) / span * (high - low)
    return scaled
