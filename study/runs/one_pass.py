"""One pass over the beginning of a stream by the product, by Vowpal Wabbit, or by a model of River."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.options import Options
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.schedule import Schedule
from study.runs.river_pass import numbered
from study.runs.vowpal import run_vowpal, write_vowpal_text

REPEATS = 3  # of the product's pass, which takes less than a tenth of a second: the quickest counts
_EPOCHS = 6


class StreamLearner(NamedTuple):
    """What learns from a stream; one of the three is given.

    options    the product with these fields of `Options`
    arguments  Vowpal Wabbit with these, and the logistic loss
    river      a name of `study.runs.river_pass.RIVER_MODELS`
    """

    options: Mapping[str, Any] | None = None
    arguments: tuple[str, ...] | None = None
    river: str | None = None


class PassMeasures(NamedTuple):
    """What a pass showed.

    error      share of them on the wrong side of the middle before they were learned
    seconds    of predicting and learning
    megabytes  of memory that it took; None where it is not measured
    load       of the machine at its end: 1 is the pass itself
    """

    examples: int
    error: float
    seconds: float
    megabytes: float | None
    load: float


def pass_over(learner: StreamLearner, batch: Batch) -> PassMeasures:
    """Predict, then learn, each example in order; labels are -1 and 1.

    subprocess.CalledProcessError if a process that learns for us fails.
    """
    if learner.options is not None:
        error, seconds, size = _product(learner.options, batch)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            if learner.river is not None:
                error, seconds, size = _river(learner.river, batch, Path(scratch))
            else:
                error, seconds, size = _vowpal(learner.arguments or (), batch, Path(scratch))
    return PassMeasures(len(batch.labels), error, seconds, size, os.getloadavg()[0])


def _product(given: Mapping[str, Any], batch: Batch) -> tuple[float, float, float | None]:
    options = Options(**given)
    if options.loss != "logistic":  # whose labels are -1 and 1
        batch = batch._replace(labels=np.where(batch.labels > 0.0, 1.0, 0.0))
    results = [
        evaluate(batch, options, Schedule(_EPOCHS, test_fraction=0.0, keep_order=True)).result for _ in range(REPEATS)
    ]
    error = results[0].progressive_error
    if error is None:
        raise ValueError("expected two labels, found one")
    return error, min(result.seconds for result in results), options.model_bytes() / 1e6


def _vowpal(arguments: tuple[str, ...], batch: Batch, scratch: Path) -> tuple[float, float, float | None]:
    text, scores = scratch / "examples.vw", scratch / "scores"
    write_vowpal_text(batch, text)
    found = run_vowpal(["-d", str(text), "-p", str(scores), "--loss_function", "logistic", *arguments])
    log_odds = np.loadtxt(scores, ndmin=1)
    return float(((log_odds > 0.0) != (batch.labels > 0.0)).mean()), found["seconds"], None


def _river(model: str, batch: Batch, scratch: Path) -> tuple[float, float, float | None]:
    """Do the pass in a process of its own, whose memory can be measured."""
    path = scratch / "examples.npz"
    np.savez(path, **numbered(batch)._asdict())
    command = [sys.executable, "-m", "study.runs.river_pass", model, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  our own module
    found = json.loads(done.stdout.splitlines()[-1])
    return found["error"], found["seconds"], found["bytes"] / 1e6
