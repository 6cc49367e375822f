"""Monomials as columns of numbers: those of a stretch of examples are multiplied all at once.

A monomial's key has 64 bits: it is the sum of its base features' hashed keys. So it does not depend on the order of the
factors, and squares have keys, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import TOO_LARGE, Batch
from stream_apple.core.splitmix64 import GOLDEN, splitmix64_finalizer

_PORTION = 2_000_000  # products that are made at a time, so that memory is bounded


class AdmittedProduct(NamedTuple):
    """A monomial as the product of another monomial and a base feature, each by its key."""

    parent: int
    factor: int


class Entries(NamedTuple):
    """Values of monomials, one entry for each that an example has; all columns have the length z.

    rows    int64[z], of the stretch; examples come in order
    keys    uint64[z]
    values  float64[z], none of them 0
    """

    rows: NDArray[np.int64]
    keys: NDArray[np.uint64]
    values: NDArray[np.float64]

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> "Entries":
        """Return the entries of this mask, or of these places."""
        return Entries(self.rows[which], self.keys[which], self.values[which])


def base_entries(batch: Batch) -> Entries:
    """Return the base features of all examples, with hashed keys; of one that occurs twice in an example the first."""
    rows = np.repeat(np.arange(len(batch.labels)), np.diff(batch.indptr))
    entries = Entries(rows, _mixed(batch.keys), batch.values.astype(np.float64))
    return entries.chosen(_firsts(entries.rows, entries.keys))


def expanded(base: Entries, products: Mapping[int, AdmittedProduct]) -> Entries:
    """Return the base features and the products that the examples have, example by example.

    products  by key; a parent that is a product itself comes before its own products
    """
    order = np.argsort(base.keys, kind="stable")
    ordered = base.chosen(order)
    columns: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}

    def column(key: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        if key not in columns:
            first, stop = (
                np.searchsorted(ordered.keys, np.uint64(key)),
                np.searchsorted(ordered.keys, np.uint64(key), side="right"),
            )
            columns[key] = ordered.rows[first:stop], ordered.values[first:stop]
        return columns[key]

    made = [base]
    for key, (parent, factor) in products.items():
        (rows, values), (others, factors) = column(parent), column(factor)
        both, here, there = np.intersect1d(rows, others, assume_unique=True, return_indices=True)
        values = values[here] * factors[there]
        columns[key] = both, values
        made.append(Entries(both, np.full(len(both), key, np.uint64), values))
    whole = Entries(*(np.concatenate(parts) for parts in zip(*made, strict=True)))
    whole = whole.chosen(_usable(whole.values))
    return whole.chosen(np.argsort(whole.rows, kind="stable"))


def as_batch(entries: Entries, labels: NDArray[np.float64], weights: NDArray[np.float64]) -> Batch:
    """Return the examples of a stretch as the learner takes them: a monomial is a feature like any other."""
    indptr = np.concatenate([[0], np.bincount(entries.rows, minlength=len(labels)).cumsum()])
    return Batch(indptr.astype(np.int64), entries.keys, entries.values.astype(np.float32), labels, weights)


class CandidateEntries(NamedTuple):
    """Products, one entry for each that an example has; all columns have the length z.

    rows     int64[z], of the stretch
    keys     uint64[z], of the product
    parents  int64[z], the parent's place in the list that was given
    heads    float64[z], its values
    factors  uint64[z], the keys of the base features that parents are multiplied with
    values   float64[z], of the factors
    """

    rows: NDArray[np.int64]
    keys: NDArray[np.uint64]
    parents: NDArray[np.int64]
    heads: NDArray[np.float64]
    factors: NDArray[np.uint64]
    values: NDArray[np.float64]


def candidate_entries(
    base: Entries, current: Entries, parents: Sequence[int], members: Mapping[int, frozenset[int]]
) -> Iterator[CandidateEntries]:
    """Yield the products of each parent and each base feature that are not among `current`, portion by portion.

    An example is in one portion, and has each product once. A factor of value 1 is not multiplied with itself, as the
    product would be the same.

    current  the features that are learned, of the same stretch
    members  the keys of the base features of each parent that is a product
    """
    if not parents or not len(base.rows):
        return
    examples = int(base.rows[-1]) + 1
    starts = np.searchsorted(base.rows, np.arange(examples + 1))
    taken = np.unique(current.keys)
    heads = [current.chosen(current.keys == np.uint64(parent)) for parent in parents]
    made = np.zeros(examples, np.int64)
    for head in heads:
        made[head.rows] += np.diff(starts)[head.rows]
    portion = made.cumsum() // _PORTION
    for number in np.unique(portion):
        low, high = np.searchsorted(portion, number), np.searchsorted(portion, number, side="right")
        parts = []
        for place, (parent, head) in enumerate(zip(parents, heads, strict=True)):
            within = head.chosen((head.rows >= low) & (head.rows < high))
            lengths = np.diff(starts)[within.rows]
            before = lengths.cumsum() - lengths
            places = np.repeat(starts[within.rows] - before, lengths) + np.arange(lengths.sum())
            made_of = CandidateEntries(
                np.repeat(within.rows, lengths),
                np.uint64(parent) + base.keys[places],
                np.full(len(places), place),
                np.repeat(within.values, lengths),
                base.keys[places],
                base.values[places],
            )
            own = np.array(sorted(members.get(parent, frozenset({parent}))), np.uint64)
            itself = np.isin(made_of.factors, own) & (made_of.values == 1.0)
            useful = _usable(made_of.heads * made_of.values) & ~itself & ~np.isin(made_of.keys, taken)
            parts.append([column[useful] for column in made_of])
        whole = CandidateEntries._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
        kept = _firsts(whole.rows, whole.keys)
        yield CandidateEntries._make(column[kept] for column in whole)


def _usable(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which values the learner can take: neither too large, nor 0 as a float32."""
    sizes: NDArray[np.float32] = np.abs(values).clip(max=float(TOO_LARGE)).astype(np.float32)
    usable: NDArray[np.bool_] = (sizes > 0) & (sizes < TOO_LARGE)
    return usable


def _firsts(rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the places of the first entry of each monomial in each example, in the order of the examples."""
    order = np.lexsort((keys, rows))
    rows, keys = rows[order], keys[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (rows[1:] != rows[:-1]) | (keys[1:] != keys[:-1])
    return order[fresh]


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each key, one-to-one, so that sums identify monomials: small keys would sum to one another."""
    return splitmix64_finalizer(keys + GOLDEN)
