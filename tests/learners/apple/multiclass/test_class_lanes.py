"""Eight classes at once, to the bit as one by one, for every number of classes that are left over."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_apple.core.jit import kernel
from stream_apple.learners.apple.multiclass.class_lanes import (
    accumulate_classes,
    accumulate_classes_one_by_one,
    add_scores,
    add_scores_one_by_one,
    average_classes,
    average_classes_one_by_one,
    move_classes,
    move_classes_one_by_one,
)
from stream_apple.learners.apple.state.classes import ClassWork, empty_class_work

SLOTS, PLACE = 3, 1
X, RATIO, SHARE = np.float32(-1.7), np.float32(-0.6), np.float32(0.3)
SPECIAL = np.array([0.0, -0.0, 1e-45, 1e-38, 3e38, -(2.0**66), 2.0**66, 1.0], np.float32)

Operation = Callable[[NDArray[np.float32], ClassWork, int], float]


@kernel
def of_scores(rows: NDArray[np.float32], work: ClassWork, k: int) -> float:
    """What kernels call can't be called from here."""
    add_scores(work.scores, np.uint64(2), rows, np.uint64(PLACE), np.uint64(k), np.uint64(k), X)
    return 0.0


@kernel
def of_accumulators(rows: NDArray[np.float32], work: ClassWork, k: int) -> float:
    """The same."""
    count = np.uint64(k)
    accumulate_classes(rows, np.uint64(PLACE), count, count, work.slopes, work.sensitivity, X, RATIO)
    return 0.0


@kernel
def of_weights(rows: NDArray[np.float32], work: ClassWork, k: int) -> float:
    """The same."""
    return float(move_classes(rows, np.uint64(PLACE), np.uint64(0), np.uint64(k), work.changes, RATIO))


@kernel
def of_averages(rows: NDArray[np.float32], _work: ClassWork, k: int) -> float:
    """The same."""
    average_classes(rows, np.uint64(PLACE), np.uint64(2 * k), np.uint64(k), SHARE)
    return 0.0


def scores_one_by_one(rows: NDArray[np.float32], work: ClassWork, k: int) -> float:
    """Interpreted."""
    add_scores_one_by_one(work.scores, 2, rows, PLACE, k, k, X)
    return 0.0


def accumulators_one_by_one(rows: NDArray[np.float32], work: ClassWork, k: int) -> float:
    """Interpreted."""
    accumulate_classes_one_by_one(rows, PLACE, k, k, work.slopes, work.sensitivity, X, RATIO)
    return 0.0


def weights_one_by_one(rows: NDArray[np.float32], work: ClassWork, k: int) -> float:
    """Interpreted."""
    return float(move_classes_one_by_one(rows, PLACE, 0, k, work.changes, RATIO))


def averages_one_by_one(rows: NDArray[np.float32], _work: ClassWork, k: int) -> float:
    """Interpreted."""
    average_classes_one_by_one(rows, PLACE, 2 * k, k, SHARE)
    return 0.0


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Numbers, some of them at the bounds."""
    values = rng.normal(size=shape).astype(np.float32)
    return np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), values)


@pytest.mark.parametrize(
    ("compiled", "interpreted"),
    [
        (of_scores, scores_one_by_one),
        (of_accumulators, accumulators_one_by_one),
        (of_weights, weights_one_by_one),
        (of_averages, averages_one_by_one),
    ],
    ids=["scores", "accumulators", "weights", "averages"],
)
def test_each_lane_is_a_class(compiled: Operation, interpreted: Operation) -> None:
    """Every number of classes from 2 to 20: what is computed, and that nothing else of the row or beside it changes."""
    rng = np.random.default_rng(1)
    for k in range(2, 21):
        for _ in range(20):
            rows, work = drawn(rng, (SLOTS, 3 * k)), empty_class_work(k)
            rows[:, k : 2 * k] = np.abs(rows[:, k : 2 * k])
            work.scores[:] = rng.normal(size=len(work.scores))
            work.slopes[:k], work.changes[:k] = np.abs(drawn(rng, (k,))), drawn(rng, (k,))
            copies = rows.copy(), copy.deepcopy(work)
            with np.errstate(all="ignore"):
                expected = interpreted(*copies, k)
                assert np.float32(compiled(rows, work, k)).tobytes() == np.float32(expected).tobytes()
            assert rows.tobytes() == copies[0].tobytes()
            assert work.scores[2 : 2 + k].tobytes() == copies[1].scores[2 : 2 + k].tobytes()
            assert work.sensitivity[:k].tobytes() == copies[1].sensitivity[:k].tobytes()
