"""svmlight (LIBSVM) text: `label index:value ... # comment`. A feature's name is its index as written.

A row without features is an example with none. `qid:` is read over. Blank lines and comments hold no example.
"""

from typing import NoReturn

from stream_apple.core.codec.example import Example
from stream_apple.files.errors import ParseError, are_values, number, value_of

_QUERY = "qid:"


def parse_line(line: str) -> Example | None:
    """The example of one line, or None if the line holds none; ParseError if it is not svmlight."""
    content = line.partition("#")[0]
    words = content.split()
    if not words:
        return None
    label = number("label", words[0])
    tokens = words[2:] if len(words) > 1 and words[1].startswith(_QUERY) else words[1:]
    features: dict[str, float] = {}
    try:
        for token in tokens:
            index, _, value = token.partition(":")
            features[index] = float(value)
    except ValueError:
        _explain(tokens)
    # Checked for the line as a whole: that costs a tenth of checking each feature.
    sound = (
        len(features) == len(tokens)
        and content.isascii()
        and "_" not in content
        and all(features)
        and are_values(features.values())
        and (not features or "".join(features).isdecimal())
    )
    if not sound:
        _explain(tokens)
    return Example(label=label, weight=1.0, id=None, features=features)


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
