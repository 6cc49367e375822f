"""A kernel whose arguments are laid out beforehand gives what Numba's own call gives."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_apple.core.bound_call import BoundCall
from stream_apple.core.jit import kernel


class Inner(NamedTuple):
    """Arrays of several kinds."""

    words: NDArray[np.uint64]
    flags: NDArray[np.uint8]


class Arguments(NamedTuple):
    """A tuple in a tuple, and numbers of each kind."""

    inner: Inner
    table: NDArray[np.float32]
    rate: float
    big: np.uint64
    yes: bool
    half: np.float32


@kernel
def _weigh(given: Arguments, nothing: NDArray[np.float64] | None, out: NDArray[np.float64], start: int) -> int:
    out[0] = given.table[1, 2] * given.rate if given.yes else -1.0
    out[1] = np.float64(given.inner.words[1] ^ given.big)
    out[2] = np.float64(given.inner.flags.size + given.table.shape[0]) + given.half
    out[3] += 1.0 if nothing is None else nothing[0]
    return start - 5


@kernel
def _nothing(out: NDArray[np.float64]) -> None:
    out[0] += 2.0


def _given(*, yes: bool) -> Arguments:
    inner = Inner(np.array([1, (1 << 64) - 3], np.uint64), np.zeros(0, np.uint8))
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    return Arguments(inner, table, -math.pi, np.uint64((1 << 63) + 1), yes, np.float32(-0.5))


@pytest.mark.parametrize("yes", [False, True])
@pytest.mark.parametrize("nothing", [None, np.array([0.25])])
def test_a_bound_call_is_the_call(yes: bool, nothing: NDArray[np.float64] | None) -> None:  # noqa: FBT001
    """With tuples, arrays of one and two dimensions, empty ones too, booleans, None, large numbers and small floats."""
    given = _given(yes=yes)
    expected, found = np.zeros(4), np.zeros(4)
    bound = BoundCall(_weigh, (given, nothing, found, 2))
    for _ in range(3):
        assert _weigh(given, nothing, expected, 2) == bound.call() == -3
        assert found.tolist() == expected.tolist()
    given.table[1, 2] = 99.0  # arrays are taken by reference
    assert _weigh(given, nothing, expected, 2) == bound.call()
    assert found.tolist() == expected.tolist()


def test_a_kernel_may_return_nothing() -> None:
    """Then the result is 0."""
    out = np.zeros(1)
    bound = BoundCall(_nothing, (out,))
    assert (bound.call(), bound.call(), out[0]) == (0, 0, 4.0)


def test_an_argument_of_another_kind_is_refused() -> None:
    """Rather than read as something else."""
    with pytest.raises(TypeError, match="expected arrays, numbers, tuples and None"):
        BoundCall(_echo, ("text",))


@kernel
def _echo(number: np.float32) -> int:
    return int(number)
