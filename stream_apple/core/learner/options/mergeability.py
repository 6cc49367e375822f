"""Which models can be merged: those whose numbers mean the same in each."""

from stream_apple.core.learner.options.learner_options import Options

_MERGEABLE = {"discretise": "none", "selection_share": "1", "descent": "adaptive"}


def why_not_merged(options: Options) -> str:
    """Return what was expected, what was found, and why models of such options can't be merged; "" if they can."""
    for name, refused, why in (
        ("discretise", options.discretise != "none", "each model cuts values into intervals of its own"),
        ("selection_share", options.selects_tuples, "each model selects tuples of its own"),
        ("descent", options.descent == "plain", "its weights have no accumulators to be averaged by"),
    ):
        if refused:
            return f"expected {name} = {_MERGEABLE[name]}, found {getattr(options, name)!r}: {why}"
    return ""
