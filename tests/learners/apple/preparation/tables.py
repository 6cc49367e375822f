"""Rows of numbers and other features, and what becomes of them when they are learned."""

import numpy as np
from learners.apple.test_learner import Row, batch_of, key
from support.bare_options import bare

from stream_apple.core.batch import Batch, joined
from stream_apple.learners.apple.preparation.preparation import Preparation
from stream_apple.learners.apple.preparation.splines import centered_keys

NAMES = ["dense", "zeros", "rare", "flag", "unit", "seldom"]
BY_KEY = {key(name): name for name in NAMES}


def rows_of(size: int, seed: int) -> list[Row]:
    """A number in all rows, one that is 0 in a third, one in every 20th row, one in two rows; and two constants."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(size):
        features = {"dense": float(np.float32(rng.normal())) or 1.0, "unit": 7.5}
        if rng.random() < 2 / 3:
            features["zeros"] = float(rng.integers(1, 40))
        if number % 20 == 0:
            features["rare"] = float(rng.integers(1, 5000))
        if rng.random() < 0.5:
            features["flag"] = 1.0
        if number in {1, 3}:
            features["seldom"] = float(number + 1)
        label: float | None = float(np.sign(np.sin(3 * features["dense"])) or 1.0)
        weight = 1.0
        if number % 20 > 3:
            label, weight = (None, 1.0) if rng.random() < 0.1 else (label, float(rng.random() < 0.9))
        rows.append(Row(features, label, weight))
    return rows


def learned_of(rows: list[Row]) -> list[int]:
    """The numbers of the rows that are learned: they have a label and a weight."""
    return [at for at, row in enumerate(rows) if row.label is not None and row.weight]


def as_learned(preparation: Preparation, batch: Batch, start: int, stop: int) -> Batch:
    """Return rows [start, stop) as they are learned, all parts in one."""
    return joined([part.rows for part in preparation.prepare_to_learn(batch, start, stop)])


def prepared(rows: list[Row]) -> tuple[Preparation, Batch]:
    """What becomes of the rows when they are learned in one batch."""
    preparation = Preparation(bare(discretise="spline"))
    return preparation, as_learned(preparation, batch_of(rows), 0, len(rows))


def named(preparation: Preparation, batch: Batch, row: int) -> dict[str, tuple[float, int]]:
    """A row's features by name: value and role; centered values are called `dense~`, say."""
    derived = {own: made.key for own, made in preparation.derived_names().items() if "\u2248" in made.ending}
    ending = {own: preparation.derived_names()[own].ending for own in derived}
    centered = dict(zip(centered_keys(np.array([*BY_KEY], np.uint64)).tolist(), BY_KEY, strict=True))
    found = {}
    for at in range(batch.indptr[row], batch.indptr[row + 1]):
        own = int(batch.keys[at])
        name = f"{BY_KEY[centered[own]]}~" if own in centered else BY_KEY[derived.get(own, own)] + ending.get(own, "")
        found[name] = (float(batch.values[at]), int(batch.roles[at]))
    assert len(found) == batch.indptr[row + 1] - batch.indptr[row]
    return found
