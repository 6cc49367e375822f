"""The options of `evaluate` for labels that are one of several classes."""

import click

from stream_apple.core.learner.options import CLASSES, Options

CLASS_OPTIONS = [
    click.option(
        "--classes",
        type=click.IntRange(0, CLASSES.high),
        default=Options.classes,
        help="With --loss softmax: labels are whole numbers from 0 to CLASSES - 1.",
    )
]
