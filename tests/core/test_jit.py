"""How functions are compiled: what Numba's private options promise, to be seen again with each of its versions."""

import numba
import numpy as np
import pytest
from core.learner.test_learner import batch_of, planted_rows, run
from numba.core.errors import TypingError

from stream_apple.core.jit import kernel
from stream_apple.core.learner.kernels.apple import process
from stream_apple.core.learner.learner import Learner
from stream_apple.core.learner.options import Options


def test_no_reference_is_counted() -> None:
    """Counting them costs as much as learning a short example."""
    run(Learner(Options(bits=8)), batch_of(planted_rows(1, seed=1)), 1)
    # Numba shows no code that comes from the cache.
    compiled = numba.jit(**process.targetoptions)(process.py_func)  # type: ignore[attr-defined]
    compiled.compile(process.signatures[0])  # type: ignore[attr-defined]
    (code,) = compiled.inspect_llvm().values()
    assert "llvm.masked.gather" in code
    assert "NRT_" not in code


def test_a_kernel_that_allocates_does_not_compile() -> None:
    """So that none that counts references comes in unseen."""

    @kernel
    def allocate() -> int:
        return len(np.empty(1))

    with pytest.raises(TypingError, match="empty"):
        allocate()
