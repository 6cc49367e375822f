"""The options of `evaluate` about tuples of attributes."""

from collections.abc import Callable
from typing import Any

import click

from stream_apple.core.learner.options import ORDER, SELECTION_SHARE, Options

TUPLE_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--order",
        type=click.IntRange(0, ORDER.high),
        help="With --method tuples: products of so many features of different attributes.  [default: 2]",
    ),
    click.option(
        "--selection-share",
        type=click.FloatRange(SELECTION_SHARE.above, SELECTION_SHARE.high, min_open=True),
        default=Options.selection_share,
        show_default=True,
        help="With --method tuples: so many of them are kept when an epoch has ended.",
    ),
    click.option(
        "--hierarchical", is_flag=True, help="With it: select attributes first, then pairs of those, and so on."
    ),
]
