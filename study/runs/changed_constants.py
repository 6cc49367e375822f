"""Passes of the product with constants that have other values: what a part of the learner without a setting is worth.

Kernels contain the values of constants, so such passes run in a process of their own, with kernels of their own.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module

from study.carried_sets import CarriedSet
from study.runs.carried_pass import CarriedFigures, pass_over_carried
from study.runs.processes import run_all

_PACKAGE = "stream_apple"


def change_constants(changes: Mapping[str, object]) -> None:
    """Give constants of the package other values, in all of its modules that have imported them.

    changes  `module:NAME`, the module's name without that of the package, to the new value

    Call it before the first kernel is compiled. AttributeError if there is no such constant.
    """
    for place, value in changes.items():
        module, _, name = place.partition(":")
        constant = getattr(import_module(f"{_PACKAGE}.{module}"), name)
        for each in [found for key, found in sys.modules.items() if key.partition(".")[0] == _PACKAGE]:
            if getattr(each, name, None) is constant:
                setattr(each, name, value)


def passes_with_constants(
    given: Mapping[str, CarriedSet], changes: Mapping[str, object]
) -> Iterator[tuple[str, CarriedFigures]]:
    """Yield the figures of each set by name, learned with changed constants and otherwise by the default."""
    with tempfile.TemporaryDirectory() as kernels, _kernels_in(kernels):
        for (name, _), figures in run_all(partial(_pass, changes=dict(changes)), list(given.items()), 1):
            yield name, figures


def _pass(named: tuple[str, CarriedSet], changes: Mapping[str, object]) -> CarriedFigures:
    change_constants(changes)
    return pass_over_carried(named[1], {})


@contextmanager
def _kernels_in(folder: str) -> Iterator[None]:
    """Let processes that are started in this context keep their kernels in a folder."""
    before = os.environ.get("NUMBA_CACHE_DIR")
    os.environ["NUMBA_CACHE_DIR"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["NUMBA_CACHE_DIR"]
        else:
            os.environ["NUMBA_CACHE_DIR"] = before
