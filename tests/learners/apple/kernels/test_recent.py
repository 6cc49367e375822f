"""The latest examples, against a list."""

import numpy as np
import pytest

from stream_apple.core.jit import kernel
from stream_apple.learners.apple.state import recent as recents
from stream_apple.learners.apple.state.model import Recent
from stream_apple.learners.apple.state.recent import (
    RECENT_EXAMPLES,
    RECENT_FEATURES,
    empty_recent,
    forget_recent,
    recent_examples,
)
from stream_apple.learners.apple.state.table import Floats, Words
from stream_apple.learners.apple.state.work import BaseFeatures

Example = tuple[list[int], list[float], float, float]


@kernel
def _keep(recent: Recent, example: BaseFeatures, label: float, importance: float) -> None:
    """What kernels call can't be called from here."""
    recents.keep_recent(recent, example, label, importance)


def _without_roles(keys: Words, values: Floats, first: np.uint64, stop: np.uint64) -> BaseFeatures:
    return BaseFeatures(keys, values, np.empty(0, np.uint8), first, stop)


def kept(recent: Recent) -> list[Example]:
    """The examples that are there, the older half first."""
    batch = recent_examples(recent)
    rows = zip(batch.indptr[:-1], batch.indptr[1:], batch.labels.tolist(), batch.weights.tolist(), strict=True)
    return [(batch.keys[a:b].tolist(), batch.values[a:b].tolist(), label, weight) for a, b, label, weight in rows]


@pytest.mark.parametrize("longest", [1, 5, 40, 9000])
def test_the_latest_are_kept(longest: int) -> None:
    """Two halves, each of at most so many examples and features; those too long for a half are left out."""
    rng = np.random.default_rng(longest)
    recent, older, newer = empty_recent(mixed=True), list[Example](), list[Example]()
    for number in range(3000 if longest < 100 else 60):
        size = int(rng.integers(0, longest + 1))
        keys, values = rng.integers(0, 1 << 64, size + 3, np.uint64), rng.normal(size=size + 3).astype(np.float32)
        _keep(recent, _without_roles(keys, values, np.uint64(2), np.uint64(2 + size)), -1.0 * number, 0.5 + number)
        if size <= RECENT_FEATURES:
            if len(newer) == RECENT_EXAMPLES or sum(len(e[0]) for e in newer) + size > RECENT_FEATURES:
                older, newer = newer, []
            newer.append((keys[2 : 2 + size].tolist(), values[2 : 2 + size].tolist(), -1.0 * number, 0.5 + number))
        if number % 97 == 0 or longest > 100:
            assert kept(recent) == older + newer
    assert kept(recent) == older + newer
    assert older


def test_a_full_half_and_the_longest_example() -> None:
    """An example that just fits a half is kept, one feature more is not."""
    recent = empty_recent(mixed=True)
    keys, values = np.arange(RECENT_FEATURES + 1, dtype=np.uint64), np.ones(RECENT_FEATURES + 1, np.float32)
    _keep(recent, _without_roles(keys, values, np.uint64(0), np.uint64(RECENT_FEATURES + 1)), 1.0, 1.0)
    assert kept(recent) == []
    for _ in range(3):
        _keep(recent, _without_roles(keys, values, np.uint64(1), np.uint64(RECENT_FEATURES + 1)), 1.0, 1.0)
        assert kept(recent)[-1][0] == keys[1:].tolist()
    assert len(kept(recent)) == 2


def test_a_half_is_filled_to_its_last_feature() -> None:
    """Eight examples of an eighth each fit; the ninth begins the other half."""
    recent, size = empty_recent(mixed=True), RECENT_FEATURES // 8
    recent.grown_at[0] = 7  # which is not its business
    keys, values = np.arange(size, dtype=np.uint64), np.ones(size, np.float32)
    for _ in range(8):
        _keep(recent, _without_roles(keys, values, np.uint64(0), np.uint64(size)), 1.0, 1.0)
    assert (recent.half[0], recent.counts.tolist(), recent.grown_at[0]) == (0, [8, 0], 7)
    _keep(recent, _without_roles(keys, values, np.uint64(0), np.uint64(size)), 1.0, 1.0)
    assert (recent.half[0], recent.counts.tolist(), recent.grown_at[0]) == (1, [8, 1], 7)
    forget_recent(recent)
    assert (recent.half[0], recent.counts.tolist(), recent.grown_at[0]) == (0, [0, 0], 7)
