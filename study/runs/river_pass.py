"""One pass of a model of River: `python -m study.runs.river_pass MODEL EXAMPLES` prints a line of JSON.

error    share of examples whose class the model predicted wrongly before it learned them
seconds  of predicting and learning; making River's dictionaries is not counted
bytes    the most memory that the process had, less what it had before it learned

MODEL is one of `RIVER_MODELS`, EXAMPLES a file of `NumberedExamples`, written by `numpy.savez`.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch

DENSE_UP_TO = 1000
"""With more features than these, zeros are left out, as they would take most of the time. With fewer they are given,
because River's trees do not take a missing feature for 0."""


class NumberedExamples(NamedTuple):
    """`n` examples whose features are numbered from 0 to `size` - 1.

    indptr   int64[n + 1]: the features of example i are those from indptr[i] to before indptr[i + 1]
    columns  int64[z]: their numbers
    values   float64[z]
    labels   bool[n]: whether the label is the larger of two
    """

    indptr: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]
    labels: NDArray[np.bool_]
    size: int


def numbered(batch: Batch) -> NumberedExamples:
    """Return the examples with their features numbered in the order of their keys."""
    keys, columns = np.unique(batch.keys, return_inverse=True)
    values = batch.values.astype(np.float64)
    return NumberedExamples(batch.indptr, columns.astype(np.int64), values, batch.labels > 0.0, len(keys))


def _forest() -> Any:  # noqa: ANN401  River's
    from river.forest import ARFClassifier

    return ARFClassifier(n_models=10, seed=0)


def _tree() -> Any:  # noqa: ANN401  River's
    from river.tree import HoeffdingAdaptiveTreeClassifier

    return HoeffdingAdaptiveTreeClassifier(seed=0)


def _logistic() -> Any:  # noqa: ANN401  River's
    from river.linear_model import LogisticRegression
    from river.preprocessing import StandardScaler

    return StandardScaler() | LogisticRegression()


RIVER_MODELS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {"adaptive-random-forest": _forest, "hoeffding-adaptive-tree": _tree, "scaled-logistic": _logistic}
)
"""They have their default settings, which for the forest are ten trees, and fixed seeds."""


def dictionaries_of(examples: NumberedExamples) -> Iterator[tuple[dict[int, float], bool]]:
    """Yield each example as River takes it, a dictionary, and its label. An example has each feature once."""
    zeros = dict.fromkeys(range(examples.size), 0.0) if examples.size <= DENSE_UP_TO else {}
    for row, label in enumerate(examples.labels.tolist()):
        part = slice(int(examples.indptr[row]), int(examples.indptr[row + 1]))
        yield zeros | dict(zip(examples.columns[part].tolist(), examples.values[part].tolist(), strict=True)), label


def learn_progressively(model: Any, examples: NumberedExamples) -> dict[str, float]:  # noqa: ANN401  River's
    """Predict, then learn, each example; no opinion (None) counts as the smaller label."""
    wrong, seconds, before = 0, 0.0, _memory("VmRSS")
    for features, positive in dictionaries_of(examples):
        started = time.perf_counter()
        said = model.predict_one(features)
        model.learn_one(features, positive)
        seconds += time.perf_counter() - started
        wrong += bool(said) != positive
    return {"error": wrong / len(examples.labels), "seconds": seconds, "bytes": _memory("VmHWM") - before}


def _memory(which: str) -> int:
    """Return the bytes that this process has now (VmRSS), or had at most (VmHWM).

    `getrusage` would count those of its parent, too.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = next(line for line in status.splitlines() if line.startswith(f"{which}:"))
    return 1024 * int(found.split()[1])


def _load(path: Path) -> NumberedExamples:
    with np.load(path) as kept:
        return NumberedExamples(kept["indptr"], kept["columns"], kept["values"], kept["labels"], int(kept["size"]))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(learn_progressively(RIVER_MODELS[sys.argv[1]](), _load(Path(sys.argv[2])))) + "\n")
