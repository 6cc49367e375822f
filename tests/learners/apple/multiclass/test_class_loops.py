"""The loops over classes, compiled and interpreted, to the bit, for every number of classes."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_apple.core.jit import kernel
from stream_apple.learners.apple.multiclass.class_update import (
    accumulate_classes,
    add_scores,
    average_classes,
    move_classes,
)
from stream_apple.learners.apple.state.classes import ClassWork, empty_class_work

SLOTS, PLACE = 3, 1
X, RATIO, SHARE = np.float32(-1.7), np.float32(-0.6), np.float32(0.3)
SPECIAL = np.array([0.0, -0.0, 1e-45, 1e-38, 3e38, -(2.0**66), 2.0**66, 1.0], np.float32)

Operation = Callable[[NDArray[np.float32], ClassWork, int], float]


def of_scores(rows: NDArray[np.float32], work: ClassWork, k: int) -> float:
    """Add to the scores."""
    add_scores(work.scores, np.uint64(2), rows, np.uint64(PLACE), np.uint64(k), np.uint64(k), X)
    return 0.0


def of_accumulators(rows: NDArray[np.float32], work: ClassWork, k: int) -> float:
    """Accumulate squared gradients."""
    count = np.uint64(k)
    accumulate_classes(rows, np.uint64(PLACE), count, count, work, X, RATIO)
    return 0.0


def of_weights(rows: NDArray[np.float32], work: ClassWork, k: int) -> float:
    """Move the weights."""
    return float(move_classes(rows, np.uint64(PLACE), np.uint64(0), np.uint64(k), work.changes, RATIO))


def of_averages(rows: NDArray[np.float32], _work: ClassWork, k: int) -> float:
    """Average them."""
    average_classes(rows, np.uint64(PLACE), np.uint64(2 * k), np.uint64(k), SHARE)
    return 0.0


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Numbers, some of them at the bounds."""
    values = rng.normal(size=shape).astype(np.float32)
    return np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), values)


@pytest.mark.parametrize("operation", [of_scores, of_accumulators, of_weights, of_averages])
def test_compiled_classes_have_the_interpreted_bits(operation: Operation) -> None:
    """Every number of classes from 2 to 20: what is computed, and that nothing else of the rows changes."""
    compiled = kernel(operation)
    rng = np.random.default_rng(1)
    for k in range(2, 21):
        for _ in range(20):
            rows, work = drawn(rng, (SLOTS, 3 * k)), empty_class_work(k)
            rows[:, k : 2 * k] = np.abs(rows[:, k : 2 * k])
            work.scores[:] = rng.normal(size=len(work.scores))
            work.slopes[:k], work.changes[:k] = np.abs(drawn(rng, (k,))), drawn(rng, (k,))
            copies = rows.copy(), copy.deepcopy(work)
            with np.errstate(all="ignore"):
                expected = operation(*copies, k)
                assert np.float32(compiled(rows, work, k)).tobytes() == np.float32(expected).tobytes()
            assert rows.tobytes() == copies[0].tobytes()
            assert work.scores[2 : 2 + k].tobytes() == copies[1].scores[2 : 2 + k].tobytes()
            assert work.sensitivity[:k].tobytes() == copies[1].sensitivity[:k].tobytes()
