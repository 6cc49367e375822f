"""Vowpal Wabbit text: `[label [weight]] ['tag]|namespace[:scale] name[:value] ... |namespace ...`.

As Vowpal Wabbit reads it: the last word before the first bar is the tag if it begins with a quote or touches
the bar; a bar followed by a space opens the namespace ""; a feature without a value counts 1; a value is
multiplied by its namespace's scale; a feature without a name (`:3`) is named by its running number, from 0,
within its section. The tag becomes the example's id. A line without label, or with NaN for it, is unlabelled; a
value of NaN is missing.

Four things differ. If a name occurs twice in a namespace, its first value that is not zero is kept, because the learner
counts a monomial once. An initial prediction is refused, because ignoring it would change what the label means. Text as
a value (`colour:red`) is refused, and so is everything about which Vowpal Wabbit only warns.
"""

from math import isnan

from stream_apple.records.message.example import Example
from stream_apple.records.spelling import (
    ParseError,
    are_values,
    check_parts,
    label_of,
    number,
    refuse_value,
    spells_plainly,
    weight_of,
)


def parse_line(line: str) -> Example | None:
    """Return the example of one line, or None for a blank line; ParseError if it is not Vowpal Wabbit text."""
    check_parts(line, "words", " \t|")
    head, bar, body = line.partition("|")
    if not bar:
        if not line.strip():
            return None
        raise ParseError("a bar '|' before the features", repr(line))
    label, weight, tag = _label(head) if head else (None, 1.0, None)
    features: dict[str, dict[str, float]] = {}
    for section in body.split("|"):
        namespace, values = _section(section.replace("\t", " "))
        if not values:
            continue
        known = features.setdefault(namespace, values)
        if known is not values:
            known.update((name, value) for name, value in values.items() if not known.get(name))
    return Example(label=label, weight=weight, id=tag, features=features)


def _label(head: str) -> tuple[float | None, float, str | None]:
    if "\t" in head:
        # Vowpal Wabbit drops what comes before a tab, and so would lose the label.
        raise ParseError("spaces between label, weight and tag", f"a tab in {head!r}")
    words = [word for word in head.split(" ") if word]
    tag = None
    if words and (words[-1].startswith("'") or not head.endswith(" ")):
        tag = words.pop().removeprefix("'") or None
    if len(words) > 2:
        raise ParseError("at most label and weight (an initial prediction is not supported)", repr(head))
    label = label_of(words[0]) if words else None
    weight = weight_of(words[1]) if len(words) > 1 else 1.0
    return label, weight, tag


def _section(section: str) -> tuple[str, dict[str, float]]:
    """Return the namespace's name and its values, from the text between two bars."""
    namespace, _, body = section.partition(" ")
    scale = 1.0
    if ":" in namespace:
        namespace, _, text = namespace.partition(":")
        if not namespace:
            raise ParseError("a namespace's name, or a space, after the bar", repr(section))
        scale = number(f"scale of namespace {namespace}", text)
    if ":" not in body:
        # The common case, binary features, at the speed of C.
        values = dict.fromkeys(body.split(" "), scale)
        values.pop("", None)
        return namespace, values if abs(scale) <= 1 else _checked(values)
    return namespace, _valued(body, scale)


def _valued(body: str, scale: float) -> dict[str, float]:
    values: dict[str, float] = {}
    plain = body.isascii() and body.isprintable() and "_" not in body
    anonymous = 0
    for token in body.split(" "):
        if not token:
            continue
        name, colon, text = token.partition(":")
        try:
            value = float(text) if colon else 1.0
        except ValueError:
            refuse_value(name, repr(text))
        if not (plain or spells_plainly(text)):
            refuse_value(name, repr(text))
        if not name:
            name = str(anonymous)
            anonymous += 1
        if not isnan(value) and not values.get(name):
            values[name] = value * scale
    return _checked(values)


def _checked(values: dict[str, float]) -> dict[str, float]:
    if not are_values(values.values()):
        name, value = next(item for item in values.items() if not are_values([item[1]]))
        refuse_value(name, f"{value!r} (times its namespace's scale)")
    return values
