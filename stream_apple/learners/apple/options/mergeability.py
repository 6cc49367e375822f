"""Which models can be merged: their numbers have to mean the same in each, and they have to grow at the same time."""

from collections.abc import Mapping

from stream_apple.learners.apple.options.learner_options import Options

MERGEABLE: Mapping[str, object] = {"early_growth": 0, "drift": "ignore"}
"""Defaults for models that will be merged, in place of the usual ones."""


def mergeable(given: Mapping[str, object]) -> dict[str, object]:
    """Return the given options (None: not given), completed by the defaults of models that will be merged."""
    return {**MERGEABLE, **{name: value for name, value in given.items() if value is not None}}


def why_not_merged(options: Options) -> str:
    """Return why models of these options can't be merged (expected, found, reason); "" if they can."""
    for name, why in (
        ("early_growth", "models that are merged grow when epochs end"),
        ("drift", "a model that begins anew would count for nothing"),
    ):
        if (found := getattr(options, name)) != MERGEABLE[name]:
            return f"expected learner.{name} = {MERGEABLE[name]}, found {found!r}: {why}"
    return why_not_started_from(options)


def why_not_started_from(options: Options) -> str:
    """Return, as `why_not_merged` does, why no model can start from one of these options; "" if one can."""
    if options.descent == "plain":
        return "expected learner.descent = adaptive, found 'plain': its weights have no accumulators to be averaged by"
    return ""
