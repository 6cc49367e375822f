"""The features of a message of the product's own, as a parsed map: in files, and wherever no kernel reads the bytes.

What it takes and what it refuses is what `records/message` does. Files have the first fault as an error.
"""

from collections.abc import Mapping
from math import isnan
from typing import Any

from stream_apple.records.message.example import Features
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError
from stream_apple.records.spelling import are_values, in_json
from stream_apple.records.values import float_of

PACKED = frozenset({"indices", "values"})


def own_features(features: dict[str, Any]) -> Features:
    """Return the features of a message; RefusedError for those that no message has."""
    if isinstance(features.get("indices"), bytes):
        return packed_features(features)
    if any(isinstance(value, dict) for value in features.values()):
        return {_name(name): _values(space, name) for name, space in features.items() if space is not None}
    return _values(features, None)


def packed_features(features: dict[str, Any]) -> Features:
    """Return features that were hashed already; RefusedError if anything else is among them."""
    found = {name: part for name, part in features.items() if part is not None or name not in PACKED}
    if not PACKED.issuperset(found) or not all(isinstance(part, bytes) for part in found.values()):
        raise RefusedError(Reason.WRONG_TYPE, "packed features: only indices and values, as bytes", features)
    return found


def _values(features: object, namespace: str | None) -> dict[str, float]:
    if not isinstance(features, Mapping):
        expected = f"a map of values in namespace {namespace!r}, as in the others"
        raise RefusedError(Reason.WRONG_TYPE, expected, in_json(features))
    found: dict[str, float] = {}
    for name, value in features.items():
        where = f"{namespace}: {_name(name)}" if namespace else _name(name)
        if value is None:
            continue
        full, number = name, float_of(value)
        if isinstance(value, str):
            if name in PACKED and not namespace:
                raise RefusedError(
                    Reason.WRONG_TYPE, f"numbers, or bytes as packed features, under {name!r}", repr(value)
                )
            full, number = f"{name}={value}", 1.0
        elif number is None:
            others = "a section `input` reads lists and deeper maps, too"
            expected = f"a number, true, false or a text as value of feature {where!r} ({others})"
            raise RefusedError(Reason.WRONG_TYPE, expected, in_json(value))
        elif isnan(number):
            continue
        if not are_values([number]):
            expected = f"a number below 2^60 in size as value of feature {where!r}"
            raise RefusedError(Reason.OVERFLOW, expected, in_json(value))
        if full in found:
            raise RefusedError(Reason.DUPLICATE_KEY, "each feature once", f"{full!r} again")
        found[full] = number
    return found


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise RefusedError(Reason.WRONG_TYPE, "text as a name", in_json(name))
    return name
