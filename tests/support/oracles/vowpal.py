"""Vowpal Wabbit as the yardstick: its wheel, run on text that holds the same examples."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from vowpalwabbit import pyvw

from stream_apple.core.batch import Batch


class VowpalRun(NamedTuple):
    """Progressive predictions float64[n] and the mean loss that VW reports."""

    predictions: NDArray[np.float64]
    loss: float


def write_text(batch: Batch, path: Path, *, numbered: bool) -> Path:
    """The batch as VW text. Names are hexadecimal keys, which VW hashes; or numbers, which it takes for hashes.

    Numbers never collide by themselves, but their products do.
    """
    keys, numbers = np.unique(batch.keys, return_inverse=True)
    known = np.array([str(n) if numbered else f"k{key:x}" for n, key in enumerate(keys.tolist())])
    names = known[numbers].tolist()
    with path.open("w") as file:
        for row, (label, weight) in enumerate(zip(batch.labels, batch.weights, strict=True)):
            start, stop = batch.indptr[row], batch.indptr[row + 1]
            pairs = zip(names[start:stop], batch.values[start:stop], strict=True)
            features = " ".join(f"{name}:{value:.9g}" for name, value in pairs)
            # VW reads "1" exactly but not "1.0".
            file.write(f"{label:g} {weight:g} | {features}\n")
    return path


def run(text: Path, arguments: Sequence[str]) -> VowpalRun:
    """One pass of VW over the file, in its own memory."""
    predictions = text.with_suffix(".predictions")
    workspace = pyvw.Workspace(arg_list=["-d", str(text), "-p", str(predictions), "--quiet", *arguments])
    loss = workspace.get_sum_loss() / workspace.get_weighted_examples()
    workspace.finish()
    return VowpalRun(np.loadtxt(predictions, ndmin=1), loss)
