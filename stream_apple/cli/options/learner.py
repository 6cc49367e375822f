"""The options of `evaluate` that say what is learned: those of a learner, with their defaults and bounds."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

import click

from stream_apple.cli.options.discretisation import DISCRETISATION
from stream_apple.cli.options.personalisation import PERSONALISATION
from stream_apple.core.learner.options import (
    ALPHA,
    BITS,
    L2,
    LEARNING_RATE,
    PARENTS,
    PRODUCT_BUDGET,
    Combine,
    Descent,
    IntegerBounds,
    Loss,
    Method,
    NumberBounds,
    Options,
    Selection,
)


class LearnerChoice:
    """The options of a learner, as they were given; None is not given, and goes by the others."""

    _fields = tuple(field.name for field in fields(Options) if field.name != "max_features_per_example")

    def __init__(self, **given: Any) -> None:  # noqa: ANN401  each of its own type
        self._given = given

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
        help="How parents are chosen; ssm is the paper's other heuristic, with --combine off.  "
        f"[default: {_MIXTURE.selection} in a mixture, else {_PLAIN.selection}]",
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
        help="Regularisation, with --descent plain.",
    ),
    *DISCRETISATION,
    *PERSONALISATION,
]


def learner_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the options of `LearnerChoice`."""
    # From the last to the first, as decorators are applied.
    for option in reversed(_ALL):
        command = option(command)
    return command
