"""Options of a learner that does nothing of itself: for tests of what is asked for, one thing at a time."""

from typing import Any

from stream_apple.learners.apple.options import FIRST, Options

_BY_ITSELF = (
    "discretise",
    "early_growth",
    "rehearsal",
    "label_units",
    "drift",
    "max_degree",
    "budget_per_feature",
    "votes",
    "shrinkage",
    "stack_loss",
)


def bare(**given: Any) -> Options:
    """Return these options; of what a mixture does by default it does only what is asked for, as the first one did."""
    chosen: dict[str, Any] = {name: FIRST[name] for name in _BY_ITSELF} | given
    return Options(**chosen)
