"""Tables of which it is known what they hold: poker hands, exclusive ors, and attributes that depend on a class."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_apple.study.tuples.discretisation import DiscreteTable


def discrete(codes: NDArray[np.integer], labels: NDArray[np.integer]) -> DiscreteTable:
    """The table of these values and classes."""
    return DiscreteTable(
        tuple(f"a{place}" for place in range(codes.shape[1])),
        codes.astype(np.int32),
        codes.max(axis=0).astype(np.int64) + 1,
        labels.astype(np.int32),
        int(labels.max()) + 1,
    )


def poker_hands(rows: int, seed: int = 0) -> DiscreteTable:
    """Five ordered cards, suit and rank of each as categories; class 1 is one pair, class 0 nothing."""
    rng = np.random.default_rng(seed)
    cards = np.argsort(rng.random((3 * rows, 52)), axis=1)[:, :5]
    suits, ranks = cards % 4, cards // 4
    ordered = np.sort(ranks, axis=1)
    different = 1 + (np.diff(ordered) > 0).sum(axis=1)
    straight = (different == 5) & ((ordered[:, 4] - ordered[:, 0] == 4) | (ordered == [0, 9, 10, 11, 12]).all(axis=1))
    flush = (suits == suits[:, :1]).all(axis=1)
    chosen = np.flatnonzero((different == 4) | ((different == 5) & ~straight & ~flush))[:rows]
    assert len(chosen) == rows
    codes = np.stack([suits, ranks], axis=2).reshape(-1, 10)[chosen]
    return discrete(codes, (different == 4)[chosen])


def exclusive_or(rows: int, others: int, seed: int = 0) -> DiscreteTable:
    """The class is the exclusive or of attributes 0 and 1, whose values are balanced; so many others say nothing."""
    rng = np.random.default_rng(seed)
    pair = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[np.arange(rows) % 4]
    codes = np.column_stack([pair, rng.integers(0, 3, (rows, others))])
    return discrete(codes, pair[:, 0] ^ pair[:, 1])


def noisy_classes(rows: int, classes: int = 2, seed: int = 0) -> DiscreteTable:
    """Four attributes of 3, 2, 3 and 4 values that depend on the class, and on each other, with much noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    cardinalities = (3, 2, 3, 4)
    codes = np.empty((rows, len(cardinalities)), np.int64)
    for place, values in enumerate(cardinalities):
        follows = rng.random(rows) < 0.35
        codes[:, place] = np.where(follows, (labels + place) % values, rng.integers(0, values, rows))
    codes[:, 3] = np.where(rng.random(rows) < 0.3, codes[:, 0], codes[:, 3])
    return discrete(codes, labels)


def write_classes(path: Path, rows: int, classes: int = 3, seed: int = 0) -> Path:
    """An svmlight file: a number, a category in three one-hot columns, and whole numbers; zeros are left out."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    numbers = np.round(labels + rng.normal(size=rows), 3)
    categories = np.where(rng.random(rows) < 0.6, labels % 3, rng.integers(0, 3, rows))
    whole = rng.integers(0, 4, rows)
    lines = []
    for label, number, category, count in zip(labels, numbers, categories, whole, strict=True):
        words = [f"1:{number:g}"] * bool(number) + [f"{2 + category}:1"] + [f"5:{count}"] * bool(count)
        lines.append(" ".join([str(label), *words]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path
