"""Every system is made by its options, and compiled before the first record."""

import pytest

from stream_apple.learners.apple.options import Options
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.systems import new_learner, warm_up_learning
from stream_apple.learners.tuples.options import TupleOptions

OF_EVERY_LOSS: dict[str, LearnerOptions] = {
    "apple, squared": Options(bits=10),
    "apple, logistic": Options(bits=10, loss="logistic"),
    "apple, softmax": Options(bits=10, loss="softmax", classes=3),
    "tuples, squared": TupleOptions(bits=10, loss="squared"),
    "tuples, logistic": TupleOptions(bits=10),
    "hashed, squared": HashedOptions(bits=10, loss="squared"),
    "hashed, logistic": HashedOptions(bits=10),
    "hashed, users": HashedOptions(bits=10, personalise="user"),
}


@pytest.mark.parametrize("name", OF_EVERY_LOSS)
def test_a_learner_is_warmed_up(name: str) -> None:
    """With labels as its loss has them, so that no score is infinite; the new learner has seen nothing of it."""
    options = OF_EVERY_LOSS[name]
    warm_up_learning(options)
    learner = new_learner(options)
    assert options.system == name.partition(",")[0]
    assert learner.examples == 0
