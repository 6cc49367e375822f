"""The option of `evaluate` that says where scores start."""

from typing import get_args

import click

from stream_apple.core.learner.options import Options, WarmStart

WARM_START = click.option(
    "--warm-start",
    type=click.Choice(get_args(WarmStart)),
    default=Options.warm_start,
    show_default=True,
    help="naive_bayes: scores start from naive Bayes by the examples so far; with --loss logistic.",
)
