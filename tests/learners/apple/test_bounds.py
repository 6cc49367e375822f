"""No kernel of the learner reads or writes outside its arrays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_no_kernel_leaves_its_arrays(tmp_path: Path) -> None:
    """Run all kinds of models with Numba's bounds checks; long, because every kernel is compiled with them."""
    # The cache is private: a shared one would give kernels that were compiled without the checks.
    done = subprocess.run(
        [sys.executable, "-c", "from learners.apple.bounds import exercise\nexercise()"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_CACHE_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
