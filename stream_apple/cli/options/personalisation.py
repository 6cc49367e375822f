"""The options of `evaluate` about users, and about features for which there is no room."""

from collections.abc import Callable
from typing import Any, get_args

import click

from stream_apple.core.learner.options import BY_KEY, Collisions, Options

PERSONALISATION: list[Callable[[Any], Any]] = [
    click.option(
        "--personalise",
        metavar="NAMESPACE",
        default=Options.personalise,
        help="Users have weights of their own: those that the features of NAMESPACE name; or, with "
        f"{BY_KEY!r}, those of the keys that `produce` would give.  [default: none have]",
    ),
    click.option(
        "--collisions",
        type=click.Choice(get_args(Collisions)),
        default=Options.collisions,
        show_default=True,
        help="share: the hashing trick, for --method linear and quadratic.",
    ),
]
