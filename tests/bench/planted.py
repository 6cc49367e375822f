"""The planted benchmark: sparse binary examples whose label needs pairs of features, made anew anywhere.

    python tests/bench/planted.py EXAMPLES OUT [SEED]

OUT is Vowpal Wabbit text. An example holds about 57 of 20,000 features (popularity falls as rank^-0.8); its log-odds
are a weak linear part over all of them, 300 pairs among the 60 most popular, and logistic noise. The weights of the
plant are the same for every SEED.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.splitmix64 import GOLDEN, splitmix64_finalizer

FEATURES, HEADS, PAIRS = 20_000, 60, 300
DRAWS = 60  # an example, with repetition


def plant() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Linear weights [FEATURES]; weights of the pairs, above the diagonal of [HEADS, HEADS]."""
    linear = np.random.default_rng(1).normal(0.0, 0.5, FEATURES)
    rng, pairs = np.random.default_rng(2), np.zeros((HEADS, HEADS))
    for _ in range(PAIRS):
        pair = np.sort(rng.choice(HEADS, 2, replace=False))
        pairs[tuple(pair)] = rng.normal(0.0, 1.0)
    return linear, pairs


def examples(count: int, seed: int = 7, draws: int = DRAWS) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Label (-1 or 1) and the ascending numbers of the features present, for each example.

    draws  how many features an example draws in the mean; what it draws twice is there once
    """
    linear, pairs = plant()
    share = np.arange(1, FEATURES + 1) ** -0.8
    upper = np.cumsum(share / share.sum())
    rng = np.random.default_rng(seed)
    for _ in range(count):
        size = max(5, rng.poisson(draws))
        present = np.unique(np.searchsorted(upper, rng.random(size)))
        heads = present[present < HEADS]
        noise = rng.logistic(0, 0.3)
        odds = 0.3 * linear[present].sum() + noise + pairs[np.ix_(heads, heads)].sum()
        yield (1 if odds > 0 else -1), present


def write(count: int, path: Path, seed: int = 7) -> Path:
    """The examples as Vowpal Wabbit text."""
    with path.open("w") as file:
        for label, present in examples(count, seed):
            file.write(f"{label} |f " + " ".join(f"f{number}" for number in present) + "\n")
    return path


def batch(count: int, draws: int = DRAWS) -> Batch:
    """The examples as the learner takes them, without any text in between."""
    labels, rows = zip(*examples(count, draws=draws), strict=True)
    lengths = np.array([0, *map(len, rows)], np.int64)
    numbers = np.concatenate(rows).astype(np.uint64)
    return Batch(
        lengths.cumsum(), _mixed(numbers), np.ones(len(numbers), np.float32), np.array(labels, float), np.ones(count)
    )


def classes(count: int, number: int) -> NDArray[np.float64]:
    """Labels of the same examples, float64[count], that are one of `number` classes by a linear plant with noise."""
    weights, rng = np.random.default_rng(3).normal(0.0, 0.5, (FEATURES, number)), np.random.default_rng(4)
    best = [(weights[present].sum(0) + rng.gumbel(0.0, 0.3, number)).argmax() for _, present in examples(count)]
    return np.array(best, float)


def stretch(whole: Batch, start: int, stop: int) -> Batch:
    """Rows [start, stop) of a batch, of which nothing is copied."""
    return whole._replace(
        indptr=whole.indptr[start : stop + 1], labels=whole.labels[start:stop], weights=whole.weights[start:stop]
    )


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys as evenly spread as hashes are (by the finalizer of splitmix64)."""
    return splitmix64_finalizer((numbers + np.uint64(1)) * GOLDEN)


if __name__ == "__main__":
    if len(sys.argv) not in {3, 4}:
        sys.exit(__doc__)
    write(int(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
