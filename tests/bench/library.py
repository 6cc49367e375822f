"""Speed of the library: `python tests/bench/library.py [ROWS]`.

`partial_fit` on sparse rows, on frames of numbers and of texts, beside the learner alone on the same rows, which is
what `evaluate` times; `learn_one` of an example of ten features; the first call of a process; River's logistic
regression and `vowpalwabbit.sklearn_vw` in the same run.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from report import figure, header
from river import linear_model
from scipy import sparse
from vowpalwabbit.sklearn_vw import VWClassifier

from stream_apple import AppleClassifier
from stream_apple.library.online import OnlineLearner
from stream_apple.river import AppleClassifier as RiverClassifier

ROUNDS, WIDTH, ONE_BY_ONE = 3, 10, 20_000
LABELS = [-1, 1]


def inputs(rows: int) -> dict[str, Any]:
    """The same number of rows in each form; the sparse ones have fifty features."""
    draw = np.random.default_rng(0)
    numbers = pd.DataFrame(draw.normal(size=(rows, WIDTH)), columns=[f"c{i}" for i in range(WIDTH)])
    words = np.array([f"v{number}" for number in range(20)])
    texts = pd.DataFrame({f"t{i}": words[draw.integers(0, len(words), rows)] for i in range(WIDTH)})
    return {
        "numbers, NumPy": numbers.to_numpy(),
        "numbers, pandas": numbers,
        "texts, pandas": texts,
        "texts, polars": pl.from_pandas(texts),
        "sparse, SciPy": sparse.random_array((rows, 5000), density=0.01, format="csr", rng=draw),
    }


def seconds_of(act: Callable[[], object]) -> float:
    """Wall time of one call."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def frames(rows: int) -> None:
    """Whole estimators beside the learner that they have."""
    labels = np.random.default_rng(1).choice(LABELS, rows)
    for name, table in inputs(rows).items():
        AppleClassifier().partial_fit(table[:2000], labels[:2000], classes=LABELS)  # compiles, or loads
        whole, alone, reading = [], [], []
        for _ in range(ROUNDS):
            estimator = AppleClassifier().partial_fit(table[:1], labels[:1], classes=LABELS)
            featurizer, learner = estimator._featurizer, OnlineLearner(estimator._online.options)
            begun = time.perf_counter()
            batch = estimator._rows(table, featurizer, reset=False)
            reading.append((time.perf_counter() - begun) / rows * 1e6)
            batch = batch._replace(labels=labels.astype(np.float64))
            alone.append(seconds_of(lambda b=batch, on=learner: on.learn(b)) / rows * 1e6)  # type: ignore[misc]
            whole.append(seconds_of(lambda e=estimator, t=table: e.partial_fit(t, labels)) / rows * 1e6)  # type: ignore[misc]
        fit, learn = figure(f"partial_fit: {name}", whole, "us/row"), figure(f"learner: {name}", alone, "us/row")
        read = figure(f"reading: {name}", reading, "us/row")
        share = figure(f"share of the learner's speed: {name}", [a / w for a, w in zip(alone, whole, strict=True)], "")
        print(f"{name:18} partial_fit {fit:6.2f} us/row, learner {learn:6.2f}, reading {read:5.2f}, share {share:.2f}")
    numbers = inputs(rows)["numbers, NumPy"]
    taken = [seconds_of(lambda: VWClassifier(passes=1).fit(numbers, labels)) / rows * 1e6 for _ in range(ROUNDS)]
    print(f"{'sklearn_vw':18} fit         {figure('sklearn_vw: numbers, NumPy', taken, 'us/row'):6.2f} us/row")


def one_by_one() -> None:
    """Examples of ten numbers, and of ten texts, one at a time."""
    draw = np.random.default_rng(2)
    cells = draw.normal(size=(ONE_BY_ONE, WIDTH))
    numbers = [{f"c{i}": cell for i, cell in enumerate(row)} for row in cells.tolist()]
    texts = [{f"t{i}": f"v{int(cell * 3)}" for i, cell in enumerate(row)} for row in cells.tolist()]
    labels = [cell > 0 for cell in (cells[:, 0] * cells[:, 1] + cells[:, 2]).tolist()]
    contestants: dict[str, tuple[Callable[[], Any], list[Any]]] = {
        "learn_one, ten numbers, first epoch": (lambda: RiverClassifier(epoch_examples=0), numbers),
        "learn_one, ten texts, first epoch": (lambda: RiverClassifier(epoch_examples=0), texts),
        "learn_one, ten numbers, linear": (lambda: RiverClassifier(method="linear"), numbers),
        "learn_one, ten numbers, with products": (RiverClassifier, numbers),
        "River's LogisticRegression": (linear_model.LogisticRegression, numbers),
    }
    for name, (make, rows) in contestants.items():
        taken = []
        for _ in range(ROUNDS):
            model = make()
            model.learn_one(rows[0], labels[0])
            begun = time.perf_counter()
            for x, y in zip(rows, labels, strict=True):
                model.learn_one(x, y)
            taken.append((time.perf_counter() - begun) / len(rows) * 1e6)
        print(f"{name:38} {figure(name, taken, 'us'):6.2f} us")


def start() -> None:
    """A process of its own: the import, and the first `partial_fit` where kernels are in the cache."""
    of_import = "import time; t = time.perf_counter(); import stream_apple; print(time.perf_counter() - t)"
    of_fit = (
        "import time; t = time.perf_counter(); from stream_apple import AppleClassifier; "
        "AppleClassifier().partial_fit([[1.0]], [1], classes=[0, 1]); print(time.perf_counter() - t)"
    )
    for name, script in (("import stream_apple", of_import), ("import and first partial_fit", of_fit)):
        taken = [
            float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
            for _ in range(ROUNDS)
        ]
        print(f"{name:38} {figure(name, taken, 's'):6.3f} s")


if __name__ == "__main__":
    print(header("numba", "numpy", "pandas", "polars", "river", "scikit-learn", "vowpalwabbit"))
    frames(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
    one_by_one()
    start()
