"""The options of `evaluate` about neighbours in a text as features."""

from collections.abc import Callable
from typing import Any

import click

from stream_apple.core.learner.options import ALL_NAMESPACES, NGRAM, parse_ngrams


def _parsed(_context: click.Context, _parameter: click.Parameter, text: str | None) -> dict[str, int]:
    try:
        return parse_ngrams(text or "")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


NGRAMS: list[Callable[[Any], Any]] = [
    click.option(
        "--ngrams",
        metavar="NAMESPACE=N,...",
        callback=_parsed,
        help=f"Neighbours in NAMESPACE are features too, two and up to N (at most {NGRAM.high}), in the order of the "
        f"file; {ALL_NAMESPACES!r} is all others, and nothing before the = features without a namespace.",
    ),
    click.option("--bigrams", is_flag=True, help=f"The same as --ngrams '{ALL_NAMESPACES}=2'."),
]


def gathered_ngrams(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a learner, with both as one; click.UsageError if there are both."""
    bigrams = given.pop("bigrams", False)
    if bigrams and given["ngrams"]:
        raise click.UsageError("--bigrams: expected it without --ngrams, found both")
    return given | {"ngrams": {ALL_NAMESPACES: 2}} if bigrams else given
