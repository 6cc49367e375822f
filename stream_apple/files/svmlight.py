"""svmlight (LIBSVM) text: `label index:value ... # comment`. A feature's name is its index as written.

A row without features is an example with none. NaN is a missing value, and as a label none. `qid:` is ignored. Blank
lines and comments hold no example.
"""

from math import isnan

from stream_apple.records.message.example import Example
from stream_apple.records.spelling import (
    MOST_PARTS,
    ParseError,
    are_values,
    label_of,
    refuse_too_many_parts,
    refuse_value,
    spelled_number,
)

_QUERY = "qid:"
"""The one field besides label and features: which query the row belongs to."""


def parse_line(line: str) -> Example | None:
    """Return the example of one line, or None if the line holds none; ParseError if it is not svmlight."""
    content = line.partition("#")[0]
    words = content.split(maxsplit=MOST_PARTS)
    if not words:
        return None
    if len(words) > MOST_PARTS:
        refuse_too_many_parts("words", len(words))
    label = label_of(words[0])
    tokens, body = words[1:], content
    if tokens and tokens[0].startswith(_QUERY):
        tokens.pop(0)
        body = " ".join(tokens)
    features: dict[str, float] = {}
    try:
        for token in tokens:
            index, _, value = token.partition(":")
            features[index] = float(value)
    except ValueError:
        _check(tokens)
    # The line is checked as a whole, which costs a tenth of checking each feature.
    sound = (
        len(features) == len(tokens)
        and body.isascii()
        and "_" not in body
        and all(features)
        and are_values(features.values())
        and (not features or "".join(features).isdecimal())
    )
    if not sound:
        _check(tokens)
        features = {index: value for index, value in features.items() if not isnan(value)}
    return Example(label=label, weight=1.0, id=None, features=features)


def _check(tokens: list[str]) -> None:
    """Raise ParseError for tokens that are no features with values; NaN is one, though it is missing."""
    seen = set()
    for token in tokens:
        index, colon, value = token.partition(":")
        if not (colon and index.isascii() and index.isdecimal()):
            raise ParseError("index:value", repr(token))
        number = spelled_number(value)
        if number is None or not (isnan(number) or are_values([number])):
            refuse_value(index, repr(value))
        if index in seen:
            raise ParseError("each index once in a row", f"{index} again")
        seen.add(index)
