"""The options of `evaluate` about numeric features as intervals."""

from collections.abc import Callable
from typing import Any, get_args

import click

from stream_apple.core.learner.options import BINS, REFIT_EPOCHS, RESERVOIR, Discretise, Options

DISCRETISATION: list[Callable[[Any], Any]] = [
    click.option(
        "--discretise",
        type=click.Choice(get_args(Discretise)),
        default=Options.discretise,
        show_default=True,
        help="What numbers are learned as: intervals between quantiles or by mdl; auto: number and interval.",
    ),
    click.option("--bins", type=click.IntRange(BINS.low, BINS.high), help="Most intervals.  [default: 12, auto 6]"),
    click.option(
        "--reservoir",
        type=click.IntRange(RESERVOIR.low, RESERVOIR.high),
        help="Cuts are made after so many examples.  [default: 500, auto 150]",
    ),
    click.option(
        "--discretise-namespaces",
        metavar="NAMES",
        default=Options.discretise_namespaces,
        help="With commas between: those whose numbers are discretised.  [default: all]",
    ),
    click.option(
        "--refit-epochs",
        type=click.IntRange(REFIT_EPOCHS.low, REFIT_EPOCHS.high),
        default=Options.refit_epochs,
        show_default=True,
        help="Cuts are made anew when so many epochs have ended; 0: never.",
    ),
]
