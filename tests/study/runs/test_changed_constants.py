"""Constants that have other values: everywhere in the package, and in kernels that are compiled for them."""

import subprocess
import sys

import numpy as np
import pytest

from stream_apple.core.batch import Batch
from study.carried_sets import CarriedSet
from study.runs.carried_pass import pass_over_carried
from study.runs.changed_constants import change_constants, passes_with_constants


def test_all_modules_that_imported_a_constant_have_the_new_value() -> None:
    """In a process of its own, as others would keep it."""
    code = (
        "from stream_apple.learners import scores\n"
        "from stream_apple.offline import evaluation\n"
        "from study.runs.changed_constants import change_constants\n"
        "change_constants({'learners.scores:EARLY_STRIDE': 77})\n"
        "print(scores.EARLY_STRIDE, evaluation.EARLY_STRIDE)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["77", "77"]


def test_an_unknown_constant_is_refused() -> None:
    """Otherwise a variant would silently be the default."""
    with pytest.raises(AttributeError, match="NO_SUCH"):
        change_constants({"learners.scores:NO_SUCH": 1})


@pytest.mark.long
def test_kernels_are_compiled_for_the_new_value() -> None:
    """A constant of a kernel makes a difference, in another process only."""
    rng = np.random.default_rng(1)
    keys = rng.integers(1, 30, (600, 3)).astype(np.uint64)
    labels = np.where((keys[:, 0] + keys[:, 1]) % 2 == 0, 1.0, -1.0)
    batch = Batch(np.arange(601) * 3, keys.ravel(), np.ones(1800, np.float32), labels, np.ones(600))
    given = CarriedSet("logistic", 0, batch)
    before = pass_over_carried(given, {}).loss
    same, changed = (
        dict(passes_with_constants({"pairs": given}, changes))["pairs"].loss
        for changes in ({}, {"learners.apple.kernels.mixture:KEEP": 0.9})
    )
    assert same == before == pass_over_carried(given, {}).loss
    assert changed != before
