"""Options of a mixture that only learns and grows: for tests of one thing at a time."""

from typing import Any

from stream_apple.learners.apple.options import Options

_ONLY_GROWS: dict[str, Any] = {"discretise": "none", "drift": "ignore", "mergeable": True, "max_degree": 250}


def bare(**given: Any) -> Options:
    """Return these options; by default numbers stay as they are, and a model grows only when an epoch ends."""
    return Options(**(_ONLY_GROWS | given))
