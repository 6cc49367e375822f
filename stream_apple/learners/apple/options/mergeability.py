"""Which models can be merged: their numbers have to mean the same in each, and they have to grow at the same time."""

from stream_apple.learners.apple.options.learner_options import Options


def why_not_merged(options: Options) -> str:
    """Return why models of these options can't be merged (expected, found, reason); "" if they can."""
    if not options.mergeable:
        return "expected learner.mergeable = true, found false: each model would grow and restart at its own time"
    return why_not_started_from(options)


def why_not_started_from(options: Options) -> str:
    """Return, as `why_not_merged` does, why no model can start from one of these options; "" if one can."""
    if options.steps == "theorem1":
        return (
            "expected learner.paper.steps = adaptive, found 'theorem1': its weights have no accumulators to be "
            "averaged by"
        )
    return ""
