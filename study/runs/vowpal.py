"""One run of Vowpal Wabbit: the same examples, order, epochs, rate and bits, in a process of its own."""

import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.errors import ModelError
from stream_apple.offline.evaluation import share_of_wrong_sides, split, weighted_mean
from stream_apple.offline.schedule import epoch_ends
from study.methods import METHODS
from study.runs.learning import REPEATED_S, REPEATS, means_at, schedule_of
from study.tasks import LossesSoFar, Measures, Task


def learn_with_vowpal(task: Task, batch: Batch, folder: Path) -> Measures:
    """Do one pass over the training examples, then a test without learning.

    folder  keeps the examples as text, for the runs of the same split
    """
    trained, tested = split(batch, schedule_of(task))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            if task.purpose == "timing":
                return Measures(seconds=_seconds(task, trained, tested, Path(scratch)))
            return _errors(task, trained, tested, folder, Path(scratch))
        except ModelError as error:
            return Measures(failure=str(error))
        except subprocess.CalledProcessError as error:
            return Measures(failure=f"Vowpal Wabbit ended with {error.returncode}: {error.stderr.strip()[-500:]}")


def _errors(task: Task, trained: Batch, tested: Batch, folder: Path, scratch: Path) -> Measures:
    texts = [folder / f"{task.data_set}-{task.seed}-{part}.vw" for part in ("trained", "tested")]
    for path, part in zip(texts, (trained, tested), strict=True):
        if not path.exists():
            # Renamed when it is whole: other processes may want, or write, the same text.
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f"{path.name}.{scratch.name}"
            write_vowpal_text(part, unfinished)
            unfinished.rename(path)
    model, scores, test_scores = (scratch / name for name in ("model", "scores", "test_scores"))
    learned = run_vowpal(
        ["-d", str(texts[0]), "-f", str(model), "-p", str(scores), *_arguments(task, len(trained.labels))]
    )
    # The model keeps its flags, but not the loss function; `-t` learns nothing.
    run_vowpal(["-d", str(texts[1]), "-t", "-i", str(model), "-p", str(test_scores), "--loss_function", task.loss])
    progressive, predictions = (np.loadtxt(path, ndmin=1) for path in (scores, test_scores))
    losses = _losses(progressive, trained, task)
    labels = np.concatenate([trained.labels, tested.labels])
    ends = epoch_ends(len(trained.labels), schedule_of(task))
    return Measures(
        progressive_loss=learned["loss"],
        test_loss=weighted_mean(_losses(predictions, tested, task), tested),
        progressive_error=share_of_wrong_sides(labels, trained, progressive),
        test_error=share_of_wrong_sides(labels, tested, predictions),
        features_per_example=learned["features"] / len(trained.labels),
        ends=tuple(LossesSoFar(*row, None) for row in zip(ends, means_at(ends, losses, trained), strict=True)),
        seconds=learned["seconds"],
    )


def _seconds(task: Task, trained: Batch, tested: Batch, scratch: Path) -> float:
    """Measure learning and scoring in one pass, which reads Vowpal Wabbit's own binary cache and not text."""
    text, cache = scratch / "all.vw", scratch / "cache"
    write_vowpal_text(trained, text)
    write_vowpal_text(tested, text, labelled=False)
    bits = ["-b", str(task.bits)]
    shared = ["-d", str(text), "--cache_file", str(cache)]
    run_vowpal([*shared, "-k", *bits])
    # Vowpal Wabbit silently ignores a cache that it can't use; without text it then learns nothing, which is noticed.
    text.write_text("", encoding="utf-8")
    seconds: list[float] = []
    while not seconds or (len(seconds) < REPEATS and seconds[0] < REPEATED_S):
        found = run_vowpal([*shared, *_arguments(task, len(trained.labels))])
        if not found["features"]:
            raise ModelError("expected Vowpal Wabbit to read its cache, found that it has learned nothing")
        seconds.append(found["seconds"])
    return statistics.median(seconds)


def _arguments(task: Task, trained: int) -> list[str]:
    method = METHODS[task.method]
    shared = ["-b", str(task.bits), "-l", repr(task.rate), "--loss_function", task.loss]
    length = ["--batch_sz", str(max(1, math.ceil(trained / task.epochs)))] if method.grows else []
    return [*shared, *(method.arguments or ()), *length]


def run_vowpal(arguments: Sequence[str]) -> dict[str, Any]:
    """Do one pass in a process of its own: Vowpal Wabbit can end a process, and its memory ends with it."""
    command = [sys.executable, "-m", "study.runs.vowpal_pass", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  our own module
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def write_vowpal_text(batch: Batch, path: Path, *, labelled: bool = True) -> None:
    """Append the examples as Vowpal Wabbit reads them; names are hexadecimal keys, which it hashes.

    9 digits distinguish all 32-bit floats, and write 1 as "1": Vowpal Wabbit reads "1.0" as something else.
    """
    keys, numbers = np.unique(batch.keys, return_inverse=True)
    known = np.array([f"k{key:x}" for key in keys.tolist()], dtype=object)
    tokens = [f"{name}:{value:.9g}" for name, value in zip(known[numbers].tolist(), batch.values.tolist(), strict=True)]
    rows = zip(batch.labels.tolist(), batch.weights.tolist(), batch.indptr[:-1], batch.indptr[1:], strict=True)
    with path.open("a", encoding="utf-8") as file:
        for label, weight, start, stop in rows:
            head = f"{label:.9g} {weight:.9g} " if labelled else ""
            file.write(f"{head}| {' '.join(tokens[start:stop])}\n")


def _losses(predictions: NDArray[np.float64], part: Batch, task: Task) -> NDArray[np.float64]:
    if task.loss == "logistic":
        losses: NDArray[np.float64] = np.logaddexp(0.0, -part.labels * predictions)
        return losses
    return (predictions - part.labels) ** 2
