"""Routines, which only kernels can call, called by tests."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

Given = ParamSpec("Given")
Found = TypeVar("Found")


def from_python(routine: Callable[Given, Found]) -> Callable[Given, Found]:
    """A kernel that hands its arguments on to the routine."""

    def call(*arguments: object) -> Found:
        return routine(*arguments)  # type: ignore[call-arg, arg-type]

    return cast("Callable[Given, Found]", numba.njit(error_model="numpy")(call))
