"""A model that goes on in another process, or in another learner of this one."""

from typing import Any

from stream_apple.learners.apple.learner import Learner


def restored(learner: Learner) -> Learner:
    """One that has the model, and has seen nothing in this process: its scratch fits no example yet."""
    other = Learner(learner.options)
    pairs: Any = zip(other.table, learner.table, strict=True)
    for own, given in pairs:
        own[:] = given
    other.restore({name: array.copy() for name, array in learner.sums.items()})
    return other
