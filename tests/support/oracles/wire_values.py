"""Records as objects: msgpack and JSON, by libraries, with all that the example format cares about."""

import json
from typing import Any

import msgpack


class Pairs(list[tuple[Any, Any]]):
    """A msgpack map with its duplicates, told from an array by its class."""


# The default ext_hook refuses the types that the specification reserves.
OPTIONS: dict[str, Any] = {
    "raw": False,
    "unicode_errors": "surrogateescape",
    "object_pairs_hook": Pairs,
    "strict_map_key": False,
    "ext_hook": lambda code, data: (code, data),
}


def unpack(value: bytes) -> Any:
    """`value` as objects that keep all that the format cares about; raises ValueError if not msgpack."""
    return msgpack.unpackb(value, **OPTIONS)


class TooDeepError(Exception):
    """An object of JSON has more in each other than any record may have."""


def is_json(value: bytes) -> bool:
    """Whether the record is meant to be JSON."""
    return value.lstrip(b" \t\r\n").startswith(b"{")


def read_json(value: bytes) -> Any:
    """The JSON `value` as `unpack` shows its msgpack; raises ValueError if it is none, TooDeepError if it nests so."""
    found = json.loads(value.decode(), object_pairs_hook=_last_ones, parse_int=_integer, parse_constant=_refuse)
    _refuse_surrogates(found)
    if depth(found) > 64:
        raise TooDeepError
    return found


def _last_ones(pairs: list[tuple[str, Any]]) -> Pairs:
    return Pairs(dict(pairs).items())


def _integer(digits: str) -> float:
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else float(digits)


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _refuse_surrogates(item: Any) -> None:
    if isinstance(item, str):
        item.encode()
    elif isinstance(item, Pairs):
        for pair in item:
            _refuse_surrogates(list(pair))
    elif isinstance(item, list):
        for part in item:
            _refuse_surrogates(part)


def read(value: bytes) -> Any:
    """A record of either kind as objects; raises ValueError if it is neither."""
    try:
        return read_json(value) if is_json(value) else unpack(value)
    except TooDeepError:
        raise ValueError("too deep") from None


def depth(item: Any) -> int:
    """How many maps and arrays are within each other."""
    if isinstance(item, Pairs):
        return 1 + max((depth(part) for pair in item for part in pair), default=0)
    if isinstance(item, list):
        return 1 + max((depth(part) for part in item), default=0)
    return 0
