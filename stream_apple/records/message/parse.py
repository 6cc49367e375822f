"""The parser of examples: msgpack is read, checked and hashed in one pass over the bytes of many records.

This module defines the example format, which `docs/wire-format.md` describes. A record becomes a row or gets a
`Reason`: that of its first fault in the order of the bytes. No byte outside a record is read for it, whatever lengths
the record claims.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Columns, Limits
from stream_apple.core.jit import kernel, routine
from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.msgpack_reader import (
    OK,
    Bytes,
    byte,
    head,
    is_utf8,
    number_at,
    skip,
    str_at,
    unlike,
    word_of,
)
from stream_apple.records.message.parse_features import read_features
from stream_apple.records.message.reasons import Reason

_LABEL, _WEIGHT, _ID, _FEATURES = word_of(b"label"), word_of(b"weight"), word_of(b"id"), word_of(b"features")
_FEATURES_BIT, _LABEL_BIT, _WEIGHT_BIT, _ID_BIT = 1, 2, 4, 8


@routine
def _id(buffer: Bytes, at: int, end: int, out: Columns, row: int) -> tuple[int, int]:
    """Parse the id at `at`; return where it ends or the fault is, and the fault."""
    kind, start, size = head(buffer, at, end)
    if kind == mp.NIL:
        return start, OK
    if kind not in (mp.STR, mp.BIN, mp.INT):
        return at, unlike(kind)
    stop = start + size
    if kind == mp.STR and not is_utf8(buffer, start, stop):
        return at, Reason.BAD_ID
    out.ids[row, 0], out.ids[row, 1] = at, stop
    return stop, OK


@routine
def _label(buffer: Bytes, at: int, end: int, limits: Limits, out: Columns, row: int) -> tuple[int, int]:
    """Parse the label at `at`; return where it ends or the fault is, and the fault."""
    if at < end and byte(buffer, at) == mp.TAG_NIL:
        return at + 1, OK
    label, stop, fault = number_at(buffer, at, end)
    if fault != OK:
        return at, fault
    if np.isnan(label):
        return stop, OK
    if limits.binary:
        if label not in (-1.0, 0.0, 1.0):
            return at, Reason.BAD_LABEL
        out.labels[row] = 1.0 if label > 0.0 else -1.0
        return stop, OK
    if limits.classes > 0:
        if not (0.0 <= label < limits.classes and label == np.floor(label)):
            return at, Reason.BAD_LABEL
        out.labels[row] = label + 0.0  # -0.0 is 0
        return stop, OK
    # Infinity is never a label, whatever the range.
    if not (limits.min_label <= label <= limits.max_label and np.isfinite(label)):
        return at, Reason.BAD_LABEL
    out.labels[row] = label
    return stop, OK


@routine
def _weight(buffer: Bytes, at: int, end: int, max_weight: float, out: Columns, row: int) -> tuple[int, int]:
    """Parse the weight at `at`; return where it ends or the fault is, and the fault."""
    if at < end and byte(buffer, at) == mp.TAG_NIL:
        return at + 1, OK
    weight, stop, fault = number_at(buffer, at, end)
    if fault != OK:
        return at, fault
    if np.isnan(weight):
        return stop, OK
    if not (0.0 <= weight <= max_weight and np.isfinite(weight)):
        return at, Reason.BAD_WEIGHT
    out.weights[row] = weight
    return stop, OK


@routine
def _known_key(word: np.uint64, size: int) -> int:
    """Return the bit of a known key, given its bytes as of `str_at`; 0 for any other."""
    if size == 8 and word == _FEATURES:
        return _FEATURES_BIT
    if size == 5 and word == _LABEL:
        return _LABEL_BIT
    if size == 6 and word == _WEIGHT:
        return _WEIGHT_BIT
    if size == 2 and word == _ID:
        return _ID_BIT
    return 0


@routine
def _record(
    buffer: Bytes, first: int, end: int, limits: Limits, out: Columns, row: int, pending: NDArray[np.int64]
) -> tuple[int, int]:
    """Parse the record [first, end) as `row`; return the place of the fault, and the fault."""
    out.labels[row] = np.nan
    out.weights[row] = 1.0
    out.ids[row, 0] = out.ids[row, 1] = first
    out.indptr[row + 1] = out.indptr[row]
    kind, at, count = head(buffer, first, end)
    if kind != mp.MAP:
        return first, unlike(kind)
    seen = 0
    for _ in range(count):
        key_at = at
        start, at, fault, word = str_at(buffer, key_at, end)
        if fault != OK:
            return key_at, fault
        known = _known_key(word, at - start)
        if seen & known:
            return key_at, Reason.DUPLICATE_KEY
        seen |= known
        if known == _FEATURES_BIT:
            at, fault = read_features(buffer, at, end, limits.max_features, out, row)
        elif known == _LABEL_BIT:
            at, fault = _label(buffer, at, end, limits, out, row)
        elif known == _WEIGHT_BIT:
            at, fault = _weight(buffer, at, end, limits.max_weight, out, row)
        elif known == _ID_BIT:
            at, fault = _id(buffer, at, end, out, row)
        else:
            at, fault = skip(buffer, at, end, pending)
        if fault != OK:
            return at, fault
    if at != end:
        return at, Reason.MALFORMED
    if not seen & _FEATURES_BIT:
        return at, Reason.NO_FEATURES
    return at, OK


@kernel
def parse(
    buffer: Bytes,
    sizes: NDArray[np.int64],
    limits: Limits,
    out: Columns,
    reasons: Bytes,
    places: NDArray[np.int64],
    pending: NDArray[np.int64],
) -> int:
    """Parse the records, one after another in `buffer`; return how many are good.

    sizes    int64[n], bytes of each record; -1 = null, which takes no bytes
    reasons  uint8[n], written: the fault of each record; a record that has a reason already is not parsed
    places   int64[n], written: the byte in the record where the fault is, -1 if it is good
    pending  int64[MAX_DEPTH], scratch
    """
    first = 0
    row = 0
    out.indptr[0] = 0
    for record in range(sizes.size):
        size = sizes[record]
        end = first + max(size, 0)
        place, reason = first, OK
        if reasons[record] != OK:
            first = end
            continue
        if size < 0:
            reason = Reason.NULL_VALUE
        elif size > limits.max_record_bytes:
            reason = Reason.RECORD_TOO_LARGE
        else:
            place, reason = _record(buffer, first, end, limits, out, row, pending)
        reasons[record] = reason
        places[record] = place - first
        if reason == OK:
            places[record] = -1
            out.rows[row] = record
            row += 1
        first = end
    return row
