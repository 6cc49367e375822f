"""Which base features a monomial is made of, found from the table alone.

A monomial's key is the sum mod 2^64 of its base features' keys. A monomial of degree d was made as a parent of degree
d - 1 times a base feature, and parents keep their slots. So for one of these parents, the difference of the two keys is
the key of a base feature. Former parents that rest are tried like parents. A monomial whose parent no longer rests is
tried with all monomials of the parent's degree that have slots. With the exhaustive methods every monomial is a parent,
though the table marks none.

Another thread may change the table meanwhile: what is read may then be a moment old, but never out of bounds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.state.table import (
    BUCKET,
    BYTE,
    HIGHS,
    ONES,
    PLACES,
    U0,
    U1,
    U3,
    U7,
    U8,
    U56,
    Table,
)

Keys = NDArray[np.uint64]

_CHUNK = 1 << 18  # products looked up at once: some megabytes of scratch
_WIDE_LOOKUPS = 1 << 25  # for products without a parent, in the life of a Factors: they take some seconds


class Product(NamedTuple):
    """A monomial as a product of base features.

    bases    keys of its base features, ascending; a factor that occurs more than once is repeated
    unknown  how many more factors could not be found: a base feature has lost its slot, and its key is in no list
    """

    bases: tuple[int, ...]
    unknown: int


class Offspring(NamedTuple):
    """What a parent's products with the base features contribute to scores.

    salience  sum of |weight| * scale over those that have a slot
    children  how many have one
    best      slot of the most salient, -1 if there is none
    """

    salience: float
    children: int
    best: int


def places(table: Table, keys: Keys) -> NDArray[np.int64]:
    """Return the slot that each of `keys` owns, int64[n], -1 if none: a vectorised `table.find`."""
    slots, tags = table.slots, table.tags
    buckets = (keys >> U8) & np.uint64(len(tags) - 1)
    fits = tags[buckets] ^ (((keys & BYTE) | U1) * ONES)
    fits = (fits - ONES) & ~fits & HIGHS
    found = np.full(len(keys), -1, np.int64)
    waiting = np.flatnonzero(fits)
    for _ in range(BUCKET):
        if not len(waiting):
            break
        word = fits[waiting]
        lowest = word & (~word + U1)
        place = (buckets[waiting] << U3) + (((lowest >> U7) * PLACES) >> U56)
        own = slots["key"][place] == keys[waiting]
        found[waiting[own]] = place[own]
        fits[waiting] = word ^ lowest
        waiting = waiting[~own & (fits[waiting] != U0)]
    return found


class Factors:
    """Factorises the monomials of a table, as they are when this object is made.

    known  uint64[k], keys of further base features, for example of those that have lost their slots
    """

    def __init__(self, table: Table, known: Keys | None = None) -> None:
        self._table = table
        slots = table.slots[:-1]
        degrees = slots["degree"]
        used = slots["key"] != 0
        # `parent` is odd for a parent; even and above 0 for a former parent that rests.
        parents = (slots["parent"] != 0) & used
        self._by_degree = [np.sort(slots["key"][parents & (degrees == d)]) for d in range(1, int(degrees.max()))]
        self._exhaustive = not parents.any()
        self._all_by_degree: dict[int, Keys] = {}
        self._lookups_left = _WIDE_LOOKUPS
        self.bases: Keys = np.sort(slots["key"][used & (degrees == 1)])
        self._known = np.zeros(0, np.uint64) if known is None else np.sort(known)
        self._products: dict[int, Product] = {0: Product((), 0)}

    def of(self, key: int, degree: int) -> Product:
        """Return the monomial with this key and degree as a product."""
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = self._factorise(key, degree)
        return found

    def offspring(self, key: int) -> Offspring:
        """Return what the products of the parent with this key contribute."""
        slots, total, count, best, most = self._table.slots, 0.0, 0, -1, -1.0
        for start in range(0, len(self.bases), _CHUNK):
            found = places(self._table, self.bases[start : start + _CHUNK] + np.uint64(key))
            found = found[found >= 0]
            if not len(found):
                continue
            salience = np.abs(slots["weight"][found]) * slots["scale"][found]
            total += float(salience.sum(dtype=np.float64))
            count += len(found)
            top = int(salience.argmax())
            if salience[top] > most:
                most, best = float(salience[top]), int(found[top])
        return Offspring(total, count, best)

    def _factorise(self, key: int, degree: int) -> Product:
        if degree == 1:
            return Product((key,), 0)
        if not 2 <= degree <= len(self._by_degree) + 1:
            return Product((), degree)
        best = self._best_of(key, degree, self._by_degree[degree - 2])
        if best.unknown == degree:
            every = self._all_of(degree - 1)
            if self._exhaustive or len(every) <= self._lookups_left:
                self._lookups_left -= len(every)
                best = self._best_of(key, degree, every)
        return best

    def _all_of(self, degree: int) -> Keys:
        """Return the keys of all monomials of the degree, ascending."""
        if degree not in self._all_by_degree:
            slots = self._table.slots[:-1]
            self._all_by_degree[degree] = np.sort(slots["key"][(slots["key"] != 0) & (slots["degree"] == degree)])
        return self._all_by_degree[degree]

    def _best_of(self, key: int, degree: int, above: Keys) -> Product:
        """Return the product with most known factors, of those made of a monomial in `above` and a base feature."""
        best = Product((), degree)
        for start in range(0, len(above), _CHUNK):
            chunk = above[start : start + _CHUNK]
            rest = np.uint64(key) - chunk
            for at in np.flatnonzero(self._are_bases(rest)).tolist():
                factors = self.of(int(chunk[at]), degree - 1)
                product = Product(tuple(sorted((*factors.bases, int(rest[at])))), factors.unknown)
                if product.unknown == 0:
                    return product
                if product.unknown < best.unknown:
                    best = product
        return best

    def _are_bases(self, keys: Keys) -> NDArray[np.bool_]:
        found = places(self._table, keys)
        bases: NDArray[np.bool_] = (found >= 0) & (self._table.slots["degree"][found] == 1)
        return bases | _among(keys, self._known)


def _among(keys: Keys, ascending: Keys) -> NDArray[np.bool_]:
    """Return which of `keys` are in the ascending array, bool[n]."""
    if not len(ascending):
        return np.zeros(len(keys), np.bool_)
    at = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    found: NDArray[np.bool_] = ascending[at] == keys
    return found
