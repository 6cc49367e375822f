"""A kernel whose arguments are laid out beforehand gives what Numba's own call gives."""

import math
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from stream_apple.core import bound_call
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


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")  # type: ignore[attr-defined]
def test_threads_that_bind_a_kernel_at_once_share_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no map keeps is freed, and a call of it would end the process."""
    compiled: Any = _nothing
    others: list[Any] = []
    compiled(np.zeros(1))
    code, make = compiled.overloads[(numba.typeof(np.zeros(1)),)], bound_call._compiled

    def interrupted(module: Any) -> Any:
        if not others:
            others.append(None)
            others[0] = bound_call._reader_of(compiled, code)
        return make(module)

    monkeypatch.setattr(bound_call, "_compiled", interrupted)
    monkeypatch.setattr(bound_call, "_made", {})
    assert [bound_call._reader_of(compiled, code)] == others
    assert [reader for reader, _ in bound_call._made.values()] == others


def test_an_argument_of_another_kind_is_refused() -> None:
    """Rather than read as something else."""
    with pytest.raises(TypeError, match="expected arrays, numbers, tuples and None"):
        BoundCall(_echo, ("text",))


@kernel
def _echo(number: np.float32) -> int:
    return int(number)
