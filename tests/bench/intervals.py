"""What numbers are best learned as: `python tests/bench/intervals.py FOLDER [EXAMPLES]`.

FOLDER has svmlight files, NAME.svm.gz. Of each, EXAMPLES (8,000) shuffled ones are learned in one pass and six epochs,
by method apple with all defaults and each choice of `learner.discretise`: the mean progressive loss, the share of wrong
signs where there are two labels, and examples a second of processor time. Then methods quadratic and cubic learn four
fifths of all examples, for a comparison with one-hot columns that were made beforehand: with these, and cuts from a
sixth of all examples, the test error of quadratic was .194 on covtype, .143 on magic04 and .063 on letter.
"""

import itertools
import sys
import time
from pathlib import Path
from typing import get_args

import numpy as np

from stream_apple.core.batch import Batch, Limits
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.learner_warmup import warm_up_learning
from stream_apple.learners.apple.options import Discretise, Loss, Method, Options
from stream_apple.learners.scores import Scores
from stream_apple.offline.dataset import read_batch

EPOCHS, TEST = 6, 0.2


def read(path: Path, count: int, loss: Loss) -> Batch:
    """So many examples of a file, shuffled."""
    limits = Limits(65_535, 1 << 30, 1e12, -1e18, 1e18, binary=loss == "logistic")
    batch = read_batch([path], limits)
    return batch.select(np.random.default_rng(0).permutation(len(batch.labels))[:count])


def learned(batch: Batch, options: Options, stop: int) -> tuple[Learner, Scores, float]:
    """One pass over the first `stop` rows, and seconds of processor time."""
    learner, scores = Learner(options), Scores.empty(len(batch.labels))
    warm_up_learning(options)
    began = time.process_time()
    ends = np.linspace(0, stop, EPOCHS + 1).astype(int).tolist()
    for start, end in itertools.pairwise(ends):
        learner.learn(batch, start, end, scores)
        if end < stop:
            learner.end_epoch()
    return learner, scores, time.process_time() - began


def error(batch: Batch, predictions: np.ndarray) -> float:
    """Share of wrong signs, the middle of the two labels being 0; NaN if there are more."""
    labels = np.unique(batch.labels)
    if len(labels) != 2:
        return float("nan")
    return float(((predictions > labels.mean()) != (batch.labels > labels.mean())).mean())


def main(folder: Path, count: int) -> None:
    """Print a line for each set and choice."""
    for path in sorted(folder.glob("*.svm.gz")):
        batch = read(path, count, "squared")
        for discretise in get_args(Discretise):
            _, scores, seconds = learned(batch, Options(discretise=discretise), len(batch.labels))
            found = f"loss {scores.losses.mean():.5g} error {error(batch, scores.predictions):.4f}"
            print(f"{path.name} apple {discretise}: {found}, {len(batch.labels) / seconds:,.0f}/s", flush=True)
        batch = read(path, 1 << 30, "logistic") if len(np.unique(batch.labels)) == 2 else batch
        if len(np.unique(batch.labels)) != 2:
            continue
        trained = len(batch.labels) - int(TEST * len(batch.labels))
        methods: tuple[Method, ...] = ("quadratic", "cubic")
        for method in methods:
            choices: tuple[Discretise, ...] = ("none", "quantile")
            for each in choices:
                if method == "cubic" and each == "none":
                    continue  # its products of values are too many for the table, and the figure says nothing
                options = Options(method=method, loss="logistic", bits=21, discretise=each)
                learner, _, _ = learned(batch, options, trained)
                tested = batch.select(np.arange(trained, len(batch.labels)))
                print(
                    f"{path.name} {method} {each}: test error {error(tested, learner.predict(tested)):.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8000)
