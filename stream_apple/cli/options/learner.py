"""The options of `evaluate` that say what is learned: those of a learner, with their defaults and bounds."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

import click

from stream_apple.cli.options.classes import CLASS_OPTIONS
from stream_apple.cli.options.discretisation import DISCRETISATION
from stream_apple.cli.options.ngrams import NGRAMS, gathered_ngrams
from stream_apple.cli.options.personalisation import PERSONALISATION
from stream_apple.cli.options.regularisation import REGULARISATION
from stream_apple.cli.options.tuples import TUPLE_OPTIONS
from stream_apple.cli.options.warm_start import WARM_START
from stream_apple.core.learner.options import (
    ALPHA,
    BITS,
    LEARNING_RATE,
    PARENTS,
    PRODUCT_BUDGET,
    Combine,
    IntegerBounds,
    Loss,
    Method,
    NumberBounds,
    Options,
    Selection,
)


class LearnerChoice:
    """The options of a learner, as they were given; None is not given, and goes by the others."""

    _fields = (*(field.name for field in fields(Options) if field.name != "max_features_per_example"), "bigrams")

    def __init__(self, **given: Any) -> None:  # noqa: ANN401  each of its own type
        self._given = gathered_ngrams(given)

    def options(self, max_features_per_example: int) -> Options:
        """Of the learner; click.UsageError for those that contradict each other."""
        try:
            return Options(**self._given, max_features_per_example=max_features_per_example)
        except ValueError as error:
            field, _, fault = str(error).removeprefix("Options.").partition(":")
            raise click.UsageError(f"--{field.replace('_', '-')}:{fault}") from None


def _within(bounds: IntegerBounds | NumberBounds) -> click.ParamType[Any]:
    if isinstance(bounds, IntegerBounds):
        return click.IntRange(bounds.low, bounds.high)
    return click.FloatRange(bounds.above, bounds.high, min_open=True)


_MIXTURE, _PLAIN = Options(), Options(combine="off")
_ALL: list[Callable[[Any], Any]] = [
    click.option(
        "--method",
        type=click.Choice(get_args(Method)),
        default=Options.method,
        show_default=True,
        help="What the features are.",
    ),
    click.option(
        "--loss", type=click.Choice(get_args(Loss)), default=Options.loss, show_default=True, help="What is minimised."
    ),
    *CLASS_OPTIONS,
    click.option("--bits", type=_within(BITS), help="The table has 2^bits slots.  [default: 18, cubic 24]"),
    click.option(
        "--alpha",
        type=_within(ALPHA),
        default=Options.alpha,
        show_default=True,
        help="--parents times s^alpha parents an epoch.",
    ),
    click.option(
        "--learning-rate",
        type=_within(LEARNING_RATE),
        default=Options.learning_rate,
        show_default=True,
        help="Of the adaptive update.",
    ),
    click.option(
        "--combine",
        type=click.Choice(get_args(Combine)),
        help="mix: publish a mixture of predictors; off: apple's own score, as in the paper.  [default: apple mix]",
    ),
    click.option(
        "--parents",
        type=_within(PARENTS),
        help=f"See --alpha.  [default: {_MIXTURE.parents:g} in a mixture, else {_PLAIN.parents:g}]",
    ),
    click.option(
        "--selection",
        type=click.Choice(get_args(Selection)),
        help="How parents are chosen; ssm is the paper's other heuristic, with --combine off; mi and cv "
        "are for --method tuples, mi for apple too, with --loss logistic.  "
        f"[default: {_MIXTURE.selection} in a mixture, else {_PLAIN.selection}; tuples mi, cv with squared loss]",
    ),
    click.option(
        "--product-budget",
        type=_within(PRODUCT_BUDGET),
        help="Mean features an example that growth keeps to; 0: no limit.  "
        f"[default: {_MIXTURE.product_budget} in a mixture, else {_PLAIN.product_budget}]",
    ),
    click.option(
        "--fallback", is_flag=True, help="One parent an epoch is the first of the smallest degree (the paper's rule)."
    ),
    *REGULARISATION,
    *TUPLE_OPTIONS,
    WARM_START,
    *NGRAMS,
    *DISCRETISATION,
    *PERSONALISATION,
]


def learner_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the options of `LearnerChoice`."""
    # From the last to the first, as decorators are applied.
    for option in reversed(_ALL):
        command = option(command)
    return command
