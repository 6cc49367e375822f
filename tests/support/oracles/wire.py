"""The example format a second time, slow and plain: objects instead of bytes, and xxhash.

`judge` says what becomes of a record; `disagreement` compares that with what the decoder made of it.
"""

import math
import struct
from typing import Any, NamedTuple

import msgpack
import numpy as np
import xxhash
from support.oracles.wire_values import OPTIONS, Pairs, TooDeepError, depth, is_json, read_json, unpack

from stream_apple.core.batch import Limits
from stream_apple.records.message.decode import Decoded, Decoder
from stream_apple.records.message.reasons import Reason

LIMITS = Limits(max_features=8, max_record_bytes=400, max_weight=100.0, min_label=-10.0, max_label=10.0, binary=False)
JOINERS = {Reason.NO_ID, Reason.NO_LABEL, Reason.LATE}
"""What is found by joiners alone."""
BINARY = LIMITS._replace(binary=True)

_MASK = 2**64 - 1


class Row(NamedTuple):
    """A good record as the decoder has to see it; `id` is raw msgpack."""

    label: float
    weight: float
    id: bytes
    keys: list[int]
    values: list[float]
    spaces: list[int]
    attributes: list[int]


class Entry(NamedTuple):
    """A feature, and where it comes from: the keys of its namespace and of its attribute, 0 for none."""

    key: int
    value: float
    space: int = 0
    attribute: int = 0


class Verdict(NamedTuple):
    """`row` of a good record. `exact` is false where bytes are no msgpack: any reason will do."""

    reason: Reason
    row: Row | None = None
    exact: bool = True


class _FaultError(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.code)
        self.reason = reason


def key_of_name(name: bytes, namespace: bytes = b"") -> int:
    """The key of a named feature."""
    seed = xxhash.xxh64_intdigest(namespace) if namespace else 0
    return xxhash.xxh64_intdigest(name, seed) or 0x9E3779B97F4A7C15


def key_of_index(index: int) -> int:
    """The key of a packed index: the finalizer of splitmix64, in Python's integers."""
    index = ((index ^ (index >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    index = ((index ^ (index >> 27)) * 0x94D049BB133111EB) & _MASK
    return (index ^ (index >> 31)) or 0x9E3779B97F4A7C15


def judge(value: bytes | None, limits: Limits) -> Verdict:
    """What becomes of the record with `value`."""
    if value is None:
        return Verdict(Reason.NULL_VALUE)
    if len(value) > limits.max_record_bytes:
        return Verdict(Reason.RECORD_TOO_LARGE)
    try:
        example = read_json(value) if is_json(value) else unpack(value)
    except ValueError:
        # Of two faults of JSON the first one counts, and this oracle can't tell which that is.
        return Verdict(Reason.MALFORMED, exact=False)
    except TooDeepError:
        return Verdict(Reason.TOO_DEEP)
    try:
        return Verdict(Reason.OK, _row(example, value, limits))
    except _FaultError as fault:
        return Verdict(fault.reason)


def _row(example: Any, value: bytes, limits: Limits) -> Row:
    if not isinstance(example, Pairs):
        raise _FaultError(Reason.WRONG_TYPE)
    found: dict[str, Any] = {}
    for key, item in example:
        if not isinstance(key, str):
            raise _FaultError(Reason.WRONG_TYPE)
        if key in found:
            raise _FaultError(Reason.DUPLICATE_KEY)
        if key == "label":
            found[key] = _label(item, limits)
        elif key == "weight":
            found[key] = _weight(item, limits)
        elif key == "id":
            _check_id(item)
            if item is not None:
                found[key] = item
        elif key == "features":
            found[key] = _features(item, limits)
        elif depth(item) + 1 > 16:
            raise _FaultError(Reason.TOO_DEEP)
    if "features" not in found:
        raise _FaultError(Reason.NO_FEATURES)
    entries = [entry for entry in found["features"] if entry.value != 0]
    return Row(
        found.get("label", math.nan),
        found.get("weight", 1.0),
        (msgpack.packb(found["id"]) if is_json(value) else _raw_id(value)) if "id" in found else b"",
        [entry.key for entry in entries],
        [entry.value for entry in entries],
        [entry.space for entry in entries],
        [entry.attribute for entry in entries],
    )


def _is_missing(item: Any) -> bool:
    return item is None or (isinstance(item, float) and math.isnan(item))


def _is_number(item: Any) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool)


def _label(item: Any, limits: Limits) -> float:
    if _is_missing(item):
        return math.nan
    if not _is_number(item):
        raise _FaultError(Reason.WRONG_TYPE)
    label = float(item)
    if limits.binary:
        if label not in {1.0, 0.0, -1.0}:
            raise _FaultError(Reason.BAD_LABEL)
        return label or -1.0
    if not limits.min_label <= label <= limits.max_label or not math.isfinite(label):
        raise _FaultError(Reason.BAD_LABEL)
    return label


def _weight(item: Any, limits: Limits) -> float:
    if _is_missing(item):
        return 1.0
    if not _is_number(item):
        raise _FaultError(Reason.WRONG_TYPE)
    weight = float(item)
    if not 0 <= weight <= limits.max_weight or not math.isfinite(weight):
        raise _FaultError(Reason.BAD_WEIGHT)
    return weight


def _check_id(item: Any) -> None:
    if isinstance(item, bool) or not isinstance(item, str | bytes | int | None):
        raise _FaultError(Reason.WRONG_TYPE)
    if isinstance(item, str):
        try:
            item.encode()
        except UnicodeEncodeError:
            raise _FaultError(Reason.BAD_ID) from None


def _raw_id(value: bytes) -> bytes:
    unpacker = msgpack.Unpacker(**OPTIONS)
    unpacker.feed(value)
    for _ in range(unpacker.read_map_header()):
        key = unpacker.unpack()
        start = unpacker.tell()
        unpacker.skip()
        if key == "id":
            return value[start : unpacker.tell()]
    raise AssertionError


def _features(item: Any, limits: Limits) -> list[Entry]:
    if not isinstance(item, Pairs):
        raise _FaultError(Reason.WRONG_TYPE)
    if not item:
        return []
    first: Any = None
    for name, first in item:
        if not isinstance(name, str):
            raise _FaultError(Reason.WRONG_TYPE)
        if first is not None:
            break
    if isinstance(first, Pairs):
        return _namespaces(item, limits)
    if isinstance(first, bytes):
        return _packed(item, limits)
    if not isinstance(first, int | float | str | None):
        raise _FaultError(Reason.WRONG_TYPE)
    if len(item) > limits.max_features:
        raise _FaultError(Reason.TOO_MANY_FEATURES)
    return _names(item, b"")


def _names(pairs: Pairs, namespace: bytes) -> list[Entry]:
    entries = []
    space = key_of_name(namespace) if namespace else 0
    for name, number in pairs:
        if not isinstance(name, str) or not isinstance(number, int | float | str | None):
            raise _FaultError(Reason.WRONG_TYPE)
        if number is None or _is_missing(number):
            continue
        if isinstance(number, str) and name in {"indices", "values"} and not namespace:
            raise _FaultError(Reason.WRONG_TYPE)
        is_category = isinstance(number, str)
        full = (f"{name}={number}" if is_category else name).encode("utf-8", "surrogateescape")
        value = 1.0 if is_category else _single(float(number))
        attribute = key_of_name(full.partition(b"=")[0], namespace)
        entries.append(Entry(key_of_name(full, namespace), value, space, attribute))
    return entries


def _single(number: float) -> float:
    with np.errstate(over="ignore"):
        single = float(np.float32(number))
    if not math.isfinite(single):
        raise _FaultError(Reason.BAD_VALUE)
    if abs(single) >= 2.0**60:
        raise _FaultError(Reason.OVERFLOW)
    return single


def _namespaces(pairs: Pairs, limits: Limits) -> list[Entry]:
    entries: list[Entry] = []
    count = 0
    for namespace, inner in pairs:
        if not isinstance(namespace, str) or not isinstance(inner, Pairs | None):
            raise _FaultError(Reason.WRONG_TYPE)
        if inner is None:
            continue
        count += len(inner)
        if count > limits.max_features:
            raise _FaultError(Reason.TOO_MANY_FEATURES)
        entries += _names(inner, namespace.encode("utf-8", "surrogateescape"))
    return entries


def _packed(pairs: Pairs, limits: Limits) -> list[Entry]:
    found: dict[str, bytes] = {}
    for key, item in pairs:
        if key not in {"indices", "values"} if isinstance(key, str) else True:
            raise _FaultError(Reason.WRONG_TYPE)
        if key in found:
            raise _FaultError(Reason.DUPLICATE_KEY)
        if item is None:
            continue
        if not isinstance(item, bytes):
            raise _FaultError(Reason.WRONG_TYPE)
        found[key] = item
    if "indices" not in found:
        raise _FaultError(Reason.WRONG_TYPE)
    raw, values = found["indices"], found.get("values")
    count = len(raw) // 8 if values is None else len(values) // 4
    fits = len(raw) == 8 * count if values is None else len(values) == 4 * count and len(raw) in {4 * count, 8 * count}
    if not fits:
        raise _FaultError(Reason.MALFORMED)
    if count == 0:
        return []
    if count > limits.max_features:
        raise _FaultError(Reason.TOO_MANY_FEATURES)
    width = len(raw) // count
    indices = [int.from_bytes(raw[at : at + width], "little") for at in range(0, len(raw), width)]
    read = [1.0] * count if values is None else struct.unpack(f"<{count}f", values)
    numbers = [0.0 if _is_missing(number) else _single(number) for number in read]
    return [Entry(key_of_index(index), number) for index, number in zip(indices, numbers, strict=True)]


def rows_of(decoded: Decoded) -> list[Row]:
    """The rows of a decoded batch, one by one."""
    batch = decoded.batch
    rows = []
    for row, (first, last) in enumerate(zip(batch.indptr[:-1], batch.indptr[1:], strict=True)):
        start, stop = decoded.ids[row]
        rows.append(
            Row(
                float(batch.labels[row]),
                float(batch.weights[row]),
                decoded.buffer[start:stop].tobytes(),
                [int(key) for key in batch.keys[first:last]],
                [float(number) for number in batch.values[first:last]],
                batch.spaces[first:last].tolist(),
                batch.attributes[first:last].tolist(),
            )
        )
    return rows


def disagreement(decoder: Decoder, values: list[bytes | None], limits: Limits) -> str | None:
    """Where the decoder's batch is not, to the bit, what the oracle says of the records; None if nowhere."""
    decoded = decoder.decode(values)
    verdicts = [judge(value, limits) for value in values]
    for index, (value, verdict) in enumerate(zip(values, verdicts, strict=True)):
        reason, place = Reason(int(decoded.reasons[index])), int(decoded.places[index])
        agreed = reason == verdict.reason if verdict.exact else reason != Reason.OK
        placed = (place == -1) == (reason == Reason.OK) and (place <= len(value or b"") or is_json(value or b""))
        if not (agreed and placed):
            return f"record {index} {value!r}: expected {verdict.reason.code}, found {reason.code} at {place}"
    good = [(index, verdict.row) for index, verdict in enumerate(verdicts) if verdict.row is not None]
    if decoded.rows.tolist() != [index for index, _ in good]:
        return f"expected rows {[index for index, _ in good]}, found {decoded.rows.tolist()}"
    for (index, expected), found in zip(good, rows_of(decoded), strict=True):
        wanted = expected if decoder.columns else expected._replace(spaces=[], attributes=[])
        # repr tells -0.0 from 0.0 and makes NaN equal to itself.
        if repr(wanted) != repr(found):
            return f"record {index} {values[index]!r}: expected {expected}, found {found}"
    return None
