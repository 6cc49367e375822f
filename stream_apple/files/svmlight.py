"""svmlight (LIBSVM) text: `label index:value ... # comment`. A feature's name is its index as written.

A row without features is an example with none. `qid:` is ignored, unless it is to be the key of the record. Blank lines
and comments hold no example.
"""

from typing import NoReturn

from stream_apple.records.message.example import Example
from stream_apple.records.spelling import MOST_PARTS, ParseError, are_values, number, refuse_too_many_parts, value_of

QUERY = "qid"
"""The one field besides label and features: which query the row belongs to."""


def parse_line(line: str, *, keyed: bool = False) -> Example | None:
    """Return the example of one line, or None if the line holds none; ParseError if it is not svmlight.

    keyed  the query is the key of the record, and must be there
    """
    content = line.partition("#")[0]
    words = content.split(maxsplit=MOST_PARTS)
    if not words:
        return None
    if len(words) > MOST_PARTS:
        refuse_too_many_parts("words", len(words))
    label = number("label", words[0])
    tokens, query, body = words[1:], "", content
    if tokens and tokens[0].startswith(f"{QUERY}:"):
        query = tokens.pop(0).removeprefix(f"{QUERY}:")
        body = " ".join(tokens)
    if keyed and not query:
        raise ParseError(f"{QUERY}:KEY after the label, for the record's key", repr(line.strip()))
    features: dict[str, float] = {}
    try:
        for token in tokens:
            index, _, value = token.partition(":")
            features[index] = float(value)
    except ValueError:
        _explain(tokens)
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
        _explain(tokens)
    return Example(label=label, weight=1.0, id=None, features=features, key=query if keyed else None)


def _explain(tokens: list[str]) -> NoReturn:
    seen = set()
    for token in tokens:
        index, colon, value = token.partition(":")
        if not (colon and index.isascii() and index.isdecimal()):
            raise ParseError("index:value", repr(token))
        value_of(index, value)
        if index in seen:
            raise ParseError("each index once in a row", f"{index} again")
        seen.add(index)
    raise AssertionError("a row was refused without a fault")
