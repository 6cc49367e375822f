"""What a learner of each method makes of some examples, to be compared between processes."""

import numpy as np
from support.restoring import restored

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import LossName, Method, Options
from stream_apple.learners.scores import Scores

SIZE = 120
CASES: tuple[tuple[Method, LossName, bool], ...] = (
    ("apple", "squared", False),
    ("apple", "logistic", False),
    ("linear", "squared", False),
    ("quadratic", "squared", False),
    ("cubic", "logistic", False),
    ("apple", "squared", True),
    ("apple", "logistic", True),
)

CLASSES = 11  # eight at once, and three
OF_CLASSES: tuple[Options, ...] = (
    Options(method="linear", loss="softmax", bits=8, classes=CLASSES),
    Options(method="apple", loss="softmax", bits=8, mixture=False, classes=CLASSES),
    Options(method="apple", loss="softmax", bits=8, mixture=True, classes=CLASSES),
)


def _examples() -> Batch:
    """Of up to 12 features each, of which many are products of no slot's in a small table."""
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 13, SIZE)
    keys = rng.integers(1, 1 << 64, 40, np.uint64)
    present = np.concatenate([rng.choice(40, size, replace=False) for size in sizes])
    values = rng.normal(size=len(present)).astype(np.float32)
    labels = np.where(rng.random(SIZE) < 0.5, -1.0, 1.0)
    return Batch(np.concatenate([[0], sizes.cumsum()]).astype(np.int64), keys[present], values, labels, np.ones(SIZE))


def show() -> None:
    """Print a digest of the model and of its scores for each case."""
    batch = _examples()
    with np.errstate(over="ignore"):
        for method, loss, mixture in CASES:
            _show(Options(method=method, loss=loss, bits=8, mixture=mixture), batch)
        classes = np.random.default_rng(6).integers(0, CLASSES, SIZE).astype(np.float64)
        for options in OF_CLASSES:
            _show(options, batch._replace(labels=classes))


def _show(options: Options, batch: Batch) -> None:
    learner, scores = Learner(options), Scores.empty(SIZE)
    for start in range(0, SIZE, SIZE // 4):
        learner.learn(batch, start, start + SIZE // 4, scores)
        other = restored(learner)
        learner.end_epoch()
        other.end_epoch()
        assert other.digest() == learner.digest()
    digest, said = learner.digest(), scores.predictions.tobytes().hex()
    print(options.method, options.loss, options.mixture, digest, learner.evicted > 0, said)
