"""Which models can be merged: their numbers have to mean the same in each, and they have to grow at the same time."""

from typing import TYPE_CHECKING

from stream_apple.learners.apple.options.learner_options import Options

if TYPE_CHECKING:
    from stream_apple.learners.port import LearnerOptions  # which needs numpy


def why_not_merged(options: "LearnerOptions") -> str:
    """Return why models of these options can't be merged (expected, found, reason); "" if they can."""
    if isinstance(options, Options) and not options.mergeable:
        return "expected learner.mergeable = true, found false: each model would grow and restart at its own time"
    return why_not_started_from(options)


def why_not_started_from(options: "LearnerOptions") -> str:
    """Return, as `why_not_merged` does, why no model can start from one of these options; "" if one can."""
    if not isinstance(options, Options):
        return f"expected learner.system = apple, found {options.system}: only its models have a common part"
    if options.steps == "theorem1":
        return (
            "expected learner.paper.steps = adaptive, found 'theorem1': its weights have no accumulators to be "
            "averaged by"
        )
    return ""
