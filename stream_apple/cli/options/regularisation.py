"""The options of `evaluate` that say how weights are held small, and by which rule they descend."""

from collections.abc import Callable
from typing import Any, get_args

import click

from stream_apple.core.learner.options import L1, L2, Descent, Options

REGULARISATION: list[Callable[[Any], Any]] = [
    click.option(
        "--descent",
        type=click.Choice(get_args(Descent)),
        default=Options.descent,
        show_default=True,
        help="plain: that of the paper's Theorem 1, for --combine off --loss logistic --l2 NUMBER.",
    ),
    click.option(
        "--l2",
        type=click.FloatRange(0, L2.high),
        default=Options.l2,
        show_default=True,
        help="Each step shrinks all weights by so much times its rate.",
    ),
    click.option(
        "--l1",
        type=click.FloatRange(0, L1.high),
        default=Options.l1,
        show_default=True,
        help="Each step draws all weights to 0 by so much times its rate; products of no weight leave the table.",
    ),
]
