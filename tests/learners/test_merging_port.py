"""What is merged of a model, for whoever merges: which systems have it, and which options go together."""

import numpy as np
import pytest

from stream_apple.errors import ConfigurationError
from stream_apple.learners.apple.options import Options
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.merging_port import Mergeable, check_alike, check_mergeable, check_startable
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.state import LearnerState
from stream_apple.learners.systems import merging_of
from stream_apple.learners.tuples.options import TupleOptions

OTHERS: tuple[LearnerOptions, ...] = (TupleOptions(bits=8), HashedOptions(bits=8))


@pytest.mark.parametrize("options", OTHERS, ids=lambda options: options.system)
def test_systems_whose_models_are_not_merged_say_so(options: LearnerOptions) -> None:
    """By whatever is asked of them first."""
    expected = f"expected learner.system = apple, found {options.system}"
    for ask in (check_mergeable, check_startable, merging_of):
        with pytest.raises(ConfigurationError, match=expected):
            ask(options)


def test_models_of_other_systems_are_not_alike() -> None:
    """The message says what differs."""
    check_alike(OTHERS[:1] * 3)
    with pytest.raises(ValueError, match=r"system 'tuples'.*found .*system 'hashed'.* in number 2"):
        check_alike(OTHERS)


def test_the_digest_is_of_rows_and_sums() -> None:
    """Of every bit of both, and of their names."""
    rows, sums = {"slots": np.zeros((4, 2), np.float32)}, {"weight": np.ones(2)}
    digest = Mergeable(Options(), LearnerState(rows, sums)).digest()
    assert Mergeable(Options(), LearnerState(rows, {"weights": sums["weight"]})).digest() != digest
    assert (
        Mergeable(Options(), LearnerState(rows, {"weight": np.array([1.0, np.nextafter(1.0, 2.0)])})).digest() != digest
    )
    rows["slots"][3, 1] = -0.0
    assert Mergeable(Options(), LearnerState(rows, sums)).digest() != digest
