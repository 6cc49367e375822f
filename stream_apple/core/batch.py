"""The arrays that examples pass through: what a record may hold, where its row is written, and the batch of rows.

Shared by the wire format (`codec`), which fills them, and the learner (`learner`), which reads them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

TOO_LARGE = np.float32(2.0**60)
"""All values of features, and all products of values, are below it in size. So their squares, which the learner adds
up, fit a float32, and so do their products with any weight."""


_NO_KEYS = np.empty(0, np.uint64)
_NO_ROLES = np.empty(0, np.uint8)

BIN = np.uint8(1)
"""A role: the feature is an indicator, as of an interval. Its square is itself: it is never multiplied with itself."""


_OF_FEATURES = ("keys", "values", "spaces", "attributes", "roles")
"""The columns of `Batch` that have an element for each feature, if they are there."""


class Batch(NamedTuple):
    """`n` examples with `z` features in all.

    The columns after `weights` are filled if the learner asks for them (`Options.wanted_columns`), else empty.

    indptr   int64[n + 1]   row r's features are [indptr[r], indptr[r + 1])
    keys     uint64[z]      64-bit identity of each base feature, in the order of the message (never 0)
    values   float32[z]     never zero, and below TOO_LARGE in size
    labels   float64[n]     NaN where the example has none: it is scored and not learned
    weights  float64[n]     importance, finite, >= 0
    spaces   uint64[z]      the key of each feature's namespace, 0 for none
    attributes  uint64[z]   the key of each feature's attribute: of a category `name=value` the key of `name` in the
                            same namespace, of another feature its own key; 0 for packed features, whose names are
                            unknown
    roles    uint8[z]       how each feature may be multiplied: 0 (freely), or BIN
    """

    indptr: NDArray[np.int64]
    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    spaces: NDArray[np.uint64] = _NO_KEYS
    attributes: NDArray[np.uint64] = _NO_KEYS
    roles: NDArray[np.uint8] = _NO_ROLES

    def learned(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return those of rows [start, stop) that are learned, int64[k], ascending: they have a label and a weight."""
        rows: NDArray[np.int64] = start + np.flatnonzero(
            ~np.isnan(self.labels[start:stop]) & (self.weights[start:stop] > 0.0)
        )
        return rows

    def rows(self, start: int, stop: int) -> "Batch":
        """Return rows [start, stop) as views with their features alone."""
        indptr = self.indptr[start : stop + 1]
        own = {name: getattr(self, name)[int(indptr[0]) : int(indptr[-1])] for name in _OF_FEATURES}
        return self._replace(
            indptr=indptr - indptr[0],
            labels=self.labels[start:stop],
            weights=self.weights[start:stop],
            **own,
        )

    def select(self, rows: NDArray[np.int64]) -> "Batch":
        """Return the examples of these rows, int64[k], in the given order."""
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], lengths]).cumsum(dtype=np.int64)
        places = np.repeat(self.indptr[rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
        columns = {name: column[places] for name in _OF_FEATURES if len(column := getattr(self, name))}
        return self._replace(indptr=indptr, labels=self.labels[rows], weights=self.weights[rows], **columns)

    def with_room(self, features: int, *, spaces: bool = False, roles: bool = False) -> "Batch":
        """Return the labels and weights, and room for `features` features in all, which are yet to be written by row.

        spaces, roles  whether these columns are wanted, too
        """
        return self._replace(
            indptr=np.zeros_like(self.indptr),
            keys=np.empty(features, np.uint64),
            values=np.empty(features, np.float32),
            spaces=np.empty(features if spaces else 0, np.uint64),
            attributes=_NO_KEYS,
            roles=np.empty(features if roles else 0, np.uint8),
        )

    def up_to(self, features: int) -> "Batch":
        """Return the batch with the first `features` features, which are those of its rows."""
        return self._replace(**{name: getattr(self, name)[:features] for name in _OF_FEATURES})


def joined(parts: Sequence[Batch]) -> Batch:
    """Return the rows of all parts, at least one, one after another; where only some parts have roles, others get 0."""
    spans = [(part, slice(int(part.indptr[0]), int(part.indptr[-1]))) for part in parts]
    with_roles = any(len(part.roles) for part in parts)
    columns: dict[str, NDArray[Any]] = {
        name: np.concatenate([getattr(part, name)[own] for part, own in spans])
        for name in ("keys", "values", "spaces", "attributes")
    }
    columns |= {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("labels", "weights")}
    if with_roles:
        given = (
            part.roles[own] if len(part.roles) else np.zeros(own.stop - own.start, np.uint8) for part, own in spans
        )
        columns["roles"] = np.concatenate(list(given))
    indptr = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)]).cumsum(dtype=np.int64)
    return Batch(indptr, **columns)


def space_key(name: str) -> int:
    """Return the key of a namespace, as in `Batch.spaces`; "" is the name of features without a namespace."""
    return xxhash.xxh64_intdigest(name.encode()) if name else 0


class Limits(NamedTuple):
    """The limits on what a record may hold.

    binary   labels have to be 1, or -1 or 0, which both become -1; the range of labels does not count
    classes  if above 0, labels have to be whole numbers from 0 to classes - 1; the range does not count
    """

    max_features: int
    max_record_bytes: int
    max_weight: float
    min_label: float
    max_label: float
    binary: bool
    classes: int = 0


class Columns(NamedTuple):
    """The arrays that rows are written to: `n` records, `m` of them good, with `z` features in all.

    indptr   int64[n + 1]   written up to m + 1; while a row is read, its end holds the number of features so far
    keys     uint64[...]    room for the sum of min(max_features, size // 2) over the records; written up to z
    values   float32[...]   as many as keys
    labels   float64[n]     written up to m, like weights, rows and ids
    weights  float64[n]
    rows     int64[n]       index of the record
    ids      int64[n, 2]    start and stop of the raw msgpack of `id`
    spaces   uint64[...]    as many as keys; empty: not written
    attributes  uint64[...]  as many as keys; empty: not written
    """

    indptr: NDArray[np.int64]
    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
    spaces: NDArray[np.uint64]
    attributes: NDArray[np.uint64]
