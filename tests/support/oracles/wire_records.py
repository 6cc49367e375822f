"""Records worth decoding: good ones of all forms, ones with a fault in a known place, and mutated ones.

Run as a program, this compares the decoder with the oracle on many of them, in whatever mode of Numba the
environment asks for: `python wire_records.py SEED CASES`.
"""

import json
import math
import random
import struct
import sys
from collections.abc import Iterator

import msgpack
import numpy as np
from support.oracles.wire import BINARY, LIMITS, disagreement
from support.oracles.wire_values import Pairs

from stream_apple.records.message.decode import Decoder


def records(seed: int) -> Iterator[bytes | None]:
    """Records without end, the same for the same seed."""
    source = random.Random(seed)
    earlier: list[bytes] = [b"\x80"]
    while True:
        choice = source.random()
        if choice < 0.02:
            yield None
        elif choice < 0.05:
            yield source.randbytes(source.randrange(30))
        elif choice < 0.06:
            # Of all that JSON may begin, this becomes most bytes of msgpack.
            yield b'{"":' + b"[" * source.randrange(18) + source.choice((b"", b"0.5", b"0.5,1e1", b'"', b"]"))
        elif choice < 0.5:
            example = _example(source)
            value = as_text(example, source) if source.random() < 0.35 else pack(example, source)
            earlier = [*earlier[-30:], value]
            yield value
        else:
            yield _mutated(source.choice(earlier), source.choice(earlier), source)


def _mutated(value: bytes, other: bytes, source: random.Random) -> bytes:
    raw = bytearray(value)
    for _ in range(source.choice((1, 1, 1, 2, 5))):
        at = source.randrange(len(raw) + 1)
        match source.randrange(7):
            case 0:
                del raw[at:]
            case 1:
                raw[at:at] = source.randbytes(source.randrange(1, 4))
            case 2:
                del raw[at : at + source.randrange(1, 4)]
            case 3:
                start = source.randrange(len(other) + 1)
                raw[at:at] = other[start : start + source.randrange(20)]
            case 4:
                raw += other
            case 5 if at < len(raw):
                raw[at] = source.choice((0xC0, 0xC1, 0xC2, 0xC7, 0xCA, 0xCB, 0xD3, 0xD4, 0xD9, 0xDB, 0xDE, 0xDF))
            case _ if at < len(raw):
                raw[at] ^= 1 << source.randrange(8)
            case _:
                raw += b"\x00"
    return bytes(raw)


_NUMBERS = (
    *(
        0,
        1,
        -1,
        127,
        128,
        -32,
        -33,
        255,
        256,
        -128,
        -129,
        65535,
        65536,
        -32768,
        -32769,
        2**31,
        2**32,
        -(2**31) - 1,
    ),
    *(2**53 + 1, True, False, 0.0, -0.0, 0.5, -3.25, 0.1, 10.0, 10.000001, 100.0),
    *(
        2**60,
        2**60 - 2**36,
        2**63,
        2**64 - 1,
        -(2**63),
        1e-46,
        1e-45,
        1.4e-45,
        3.4028234e38,
        3.4028236e38,
        1e39,
        math.inf,
        -math.inf,
        math.nan,
    ),
)
_NAMES = ("", "a", "f1", "f12", "f123", "f1234", "f12345", "seven=7", "eight888", "=ine99=99", "é", "x" * 31)
_LONG_NAMES = ("y" * 32, "z" * 33, "w" * 34 + "=" + "w" * 35, "v" * 260, "indices", "values", "label")
_CATEGORIES = ("", "Rome", "S\u00e3o Paulo", "=", 'a "quoted" \\ name\n', "x" * 31, "y" * 32, "z" * 300)
_OTHERS: tuple[object, ...] = (
    None,
    "text",
    b"bin",
    [],
    [1, [2]],
    {},
    msgpack.ExtType(5, b"12345"),
    msgpack.Timestamp(5, 7),
)


def _pick_number(source: random.Random) -> object:
    if source.random() < 0.02:
        return source.choice(_OTHERS)
    if source.random() < 0.1:
        return source.choice(_CATEGORIES)
    return source.choice(_NUMBERS[:29] if source.random() < 0.95 else _NUMBERS)


def _pick_name(source: random.Random) -> object:
    if source.random() < 0.01:
        return source.choice((5, b"bin", None))
    return source.choice(_NAMES if source.random() < 0.8 else _LONG_NAMES)


def _pick_names(source: random.Random) -> Pairs:
    return Pairs((_pick_name(source), _pick_number(source)) for _ in range(source.choice((0, 1, 2, 3, 4, 9))))


def _pick_features(source: random.Random) -> object:
    choice = source.random()
    if choice < 0.4:
        return _pick_names(source)
    if choice < 0.7:
        return Pairs((_pick_name(source), _pick_names(source)) for _ in range(source.choice((1, 2, 3))))
    if choice < 0.97:
        count, width = source.choice((0, 1, 2, 5, 9)), source.choice((4, 8, 8, 7))
        packed = Pairs([("indices", source.choice((source.randbytes, bytes))(count * width))])
        if source.random() < 0.7:
            numbers = [source.choice((0.0, -0.0, 1.0, 2.5, 1e-45, math.nan if source.random() < 0.1 else -7.0))] * count
            packed.insert(source.randrange(2), ("values", struct.pack(f"<{count}f", *numbers)))
        if source.random() < 0.1:
            packed.append(source.choice((("indices", b""), ("other", b""), ("values", 1), (b"values", b""))))
        return packed
    return source.choice(_OTHERS)


def _nested(depth: int, source: random.Random) -> object:
    item: object = 1
    for _ in range(depth):
        item = [item] if source.random() < 0.5 else Pairs([(item, 2)] if source.random() < 0.5 else [(3, item)])
    return item


def _example(source: random.Random) -> object:
    if source.random() < 0.01:
        return source.choice(_OTHERS)
    fields = Pairs([("features", _pick_features(source))])
    if source.random() < 0.7:
        fields.append(("label", source.choice((None, 0, 1, -1, 0.5, -0.0, _pick_number(source)))))
    if source.random() < 0.4:
        fields.append(("weight", source.choice((0, 1, 2.5, 100, -0.0, _pick_number(source)))))
    if source.random() < 0.4:
        fields.append(
            (
                "id",
                source.choice(("u-1", "é€😀", "", b"\xff\x00", 5, -70000, 2**64 - 1, _pick_number(source))),
            )
        )
    if source.random() < 0.2:
        fields.append((source.choice(("extra", "labels", "", "Label", "label\x00")), source.choice(_OTHERS)))
    if source.random() < 0.1:
        fields.append(("deep", _nested(source.randrange(13, 19), source)))
    if source.random() < 0.03:
        fields.append(source.choice((("label", 1), ("features", {"a": 1}), ("id", 1), (5, 1), (b"label", 1))))
    source.shuffle(fields)
    return fields if source.random() < 0.99 else Pairs(fields[:-1])


def pack(item: object, source: random.Random) -> bytes:
    """Like `msgpack.packb`, but a map may repeat keys, and any of the forms that msgpack allows is taken."""
    if isinstance(item, Pairs | dict):
        pairs = list(item.items()) if isinstance(item, dict) else item
        body = b"".join(pack(key, source) + pack(inner, source) for key, inner in pairs)
        return _header(len(pairs), (0x80, 15), (None, 0xDE, 0xDF), source) + body
    if isinstance(item, list):
        return _header(len(item), (0x90, 15), (None, 0xDC, 0xDD), source) + b"".join(pack(x, source) for x in item)
    if isinstance(item, str):
        raw = item.encode()
        return _header(len(raw), (0xA0, 31), (0xD9, 0xDA, 0xDB), source) + raw
    if isinstance(item, bytes):
        return _header(len(item), None, (0xC4, 0xC5, 0xC6), source) + item
    if isinstance(item, int) and not isinstance(item, bool):
        return _integer(item, source)
    fits = isinstance(item, float) and (not math.isfinite(item) or abs(item) < 3.4028235e38)
    packed: bytes = msgpack.packb(item, use_single_float=fits and source.random() < 0.3)
    return packed


def as_text(item: object, source: random.Random) -> bytes:
    """Like `json.dumps`, but an object may repeat keys, and any of the forms that JSON allows is taken.

    What JSON can't show is written in a way that it doesn't allow.
    """
    if isinstance(item, Pairs | dict):
        pairs = list(item.items()) if isinstance(item, dict) else item
        # A key that is no text, which JSON hasn't, becomes the value if it may hold something.
        named = [
            (key, inner) if isinstance(key, str) or source.random() < 0.1 else ("key", key or inner)
            for key, inner in pairs
        ]
        parts = [as_text(key, source) + b":" + _space(source) + as_text(inner, source) for key, inner in named]
        return _space(source) * 2 + b"{" + _space(source) + (_space(source) + b",").join(parts) + b"}"
    if isinstance(item, list):
        return b"[" + b",".join(as_text(inner, source) + _space(source) for inner in item) + b"]"
    if isinstance(item, str):
        return b'"' + b"".join(_character(sign, source) for sign in item) + b'"'
    if isinstance(item, bool | int) or item is None:
        return json.dumps(item).encode()
    if isinstance(item, float):
        text = source.choice((repr, "{:.17e}".format, "{:.30E}".format))(item) if math.isfinite(item) else repr(item)
        return text.replace("nan", "NaN").encode()
    if source.random() < 0.7:
        return b'"other"'
    return source.choice((b"NaN", b"Infinity", b"-Infinity", b"'x'", b"01", b".5", b"+1", b"1.", b"\xff", b"nul", b""))


def _space(source: random.Random) -> bytes:
    return source.choice((b"", b"", b"", b" ", b"\n", b"\t \r"))


def _character(sign: str, source: random.Random) -> bytes:
    if sign in '"\\' or ord(sign) < 0x20 or source.random() < 0.05:
        # UTF-16 is what JSON's escapes spell.
        units = sign.encode("utf-16-be")
        return b"".join(b"\\u%04x" % int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return sign.encode()


def _header(size: int, short: tuple[int, int] | None, tags: tuple[int | None, ...], source: random.Random) -> bytes:
    """The header of something of `size`, mostly the shortest."""
    forms = [bytes([short[0] + size])] if short and size <= short[1] else []
    for tag, code, limit in zip(tags, (">BB", ">BH", ">BI"), (2**8, 2**16, 2**32), strict=True):
        if tag is not None and size < limit:
            forms.append(struct.pack(code, tag, size))
    return forms[0] if source.random() < 0.8 else source.choice(forms)


def _integer(number: int, source: random.Random) -> bytes:
    forms: list[bytes] = [msgpack.packb(number)]
    for tag, code in zip(range(0xCC, 0xD4), "BHIQbhiq", strict=True):
        try:
            forms.append(struct.pack(">B" + code, tag, number))
        except struct.error:
            continue  # this form is too small for the number
    return source.choice(forms)


def compare(seed: int, cases: int) -> None:
    """Compare decoder and oracle on `cases` records, alone and in batches; raises AssertionError if not."""
    source = records(seed)
    columns = frozenset({"spaces", "attributes"})
    kept = {limits: Decoder(limits, columns) for limits in (LIMITS, BINARY)}
    while cases > 0:
        for size in (1, 1, 1, 1, 1, 5, 40):
            values = [next(source) for _ in range(size)]
            cases -= size
            for limits, decoder in kept.items():
                # A new decoder has not a byte to spare, which is how a write too far would be found.
                for each in (decoder, Decoder(limits)):
                    found = disagreement(each, values, limits)
                    if found is not None:
                        raise AssertionError(f"seed {seed}, {cases} records to go: {found}")


if __name__ == "__main__":
    with np.errstate(over="ignore"):
        compare(int(sys.argv[1]), int(sys.argv[2]))
    print("no disagreement")
