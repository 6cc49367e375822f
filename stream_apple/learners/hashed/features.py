"""Hashing: the features of an example, and the slots that they share.

The features are the constant, which has a slot of its own, and the features of the record. With `personalise` there are
also the products of each feature that names a user with each feature that does not (Daume 2007; Weinberger et al. 2009,
section 4). So a score is the sum of a part that all users share and a part of the user's own. A user without history
has the score of the shared part.

A feature's slot is a hash of its 64-bit key; the key of a product is the sum of both keys. The values of an example's
features that share a slot are added first, and then learned as one feature (Cohen's lecture: V[h] is the sum of x_j
over all j of hash h).
"""

from collections.abc import Iterator

import numpy as np

from stream_apple.core.batch import TOO_LARGE, Batch
from stream_apple.core.jit import part
from stream_apple.core.splitmix64 import GOLDEN
from stream_apple.learners.hashed.table import HashedModel, HashedRule, HashedWork

_MASK = (1 << 64) - 1


@part
def collect_features(model: HashedModel, work: HashedWork, batch: Batch, row: int) -> tuple[int, bool]:
    """Write the row's features to `work`; return their number, and whether features were left out.

    The caller must call `release_features` before the next row.
    """
    users, most = model.rule.users, model.rule.max_features
    first, stop = batch.indptr[row], batch.indptr[row + 1]
    work.slot[0], work.x[0] = len(model.slots) - 1, 1.0
    found, offered = 1, 1
    for f in range(first, stop):
        if offered == most:
            return found, True
        offered += 1
        found = _add(model.rule, work, found, batch.keys[f], np.float64(batch.values[f]))
    if users == np.uint64(0):
        return found, False
    for u in range(first, stop):
        if batch.spaces[u] != users:
            continue
        for f in range(first, stop):
            product = np.float64(batch.values[u]) * np.float64(batch.values[f])
            if batch.spaces[f] == users or abs(product) >= TOO_LARGE:
                continue
            if offered == most:
                return found, True
            offered += 1
            found = _add(model.rule, work, found, np.uint64(batch.keys[u] + batch.keys[f]), product)
    return found, False


@part
def _add(rule: HashedRule, work: HashedWork, found: int, key: np.uint64, x: float) -> int:
    """Add a feature, or its value to the feature that has its slot already; return the number of features."""
    slot = np.int64(np.uint64(key * GOLDEN) >> np.uint64(64 - rule.bits))
    known = work.position[slot]
    if known > 0:
        work.x[known] += x
        return found
    work.position[slot] = found
    work.slot[found], work.x[found] = slot, x
    return found + 1


@part
def release_features(work: HashedWork, found: int) -> None:
    """Forget the example's features: `position` is 0 again."""
    for t in range(1, found):
        work.position[work.slot[t]] = 0


def list_features(rule: HashedRule, batch: Batch, row: int) -> Iterator[tuple[tuple[int, ...], int, float]]:
    """Yield what `collect_features` adds up, without the constant: the factors' keys, the slot, and the value."""
    own = slice(int(batch.indptr[row]), int(batch.indptr[row + 1]))
    features = list(zip(batch.keys[own].tolist(), batch.values[own].tolist(), strict=True))
    listed: list[tuple[tuple[int, ...], float]] = [((key,), x) for key, x in features]
    if rule.users:
        names_user = (batch.spaces[own] == rule.users).tolist()
        listed += [
            ((user, key), of_user * x)
            for (user, of_user), naming in zip(features, names_user, strict=True)
            for (key, x), other in zip(features, names_user, strict=True)
            if naming and not other and abs(of_user * x) < TOO_LARGE
        ]
    for factors, x in listed[: rule.max_features - 1]:
        hashed = sum(factors) * int(GOLDEN) & _MASK
        yield tuple(sorted(factors)), hashed >> (64 - rule.bits), x
