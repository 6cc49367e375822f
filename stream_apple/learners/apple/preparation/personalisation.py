"""Personalisation: the products of the features that name the user with all other base features.

A score is the shared part plus the user's part (Daume 2007; Weinberger et al. 2009); the score of a user without
history is the shared part alone. Each product is the monomial that growth would make of the two features: its key is
the sum of theirs. But it is a feature from the first example on, and like the user's own feature it has the role ALONE:
it is multiplied with nothing.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import ALONE, TOO_LARGE, Batch, space_key
from stream_apple.core.jit import kernel, routine
from stream_apple.learners.apple.options import BY_KEY

_ZERO = np.uint64(0)


class UserFeatures:
    """Adds users' own features to batches.

    by    the namespace whose features name users; or BY_KEY: the record's key names the user
    most  the most features of an example, the constant included: a user whose products do not all fit gets none, nor
          do the users after it
    """

    def __init__(self, by: str, most: int) -> None:
        # 0 stands for BY_KEY, as no namespace has the key 0.
        self._space = _ZERO if by == BY_KEY else np.uint64(space_key(by))
        self._most = most

    def bounds(self, batch: Batch) -> NDArray[np.int64]:
        """Return how many features each example can have at most, int64[n]."""
        sizes = np.diff(batch.indptr)
        if self._space == _ZERO:
            users = np.ones(len(sizes), np.int64)
            return sizes + np.minimum(users + sizes, self._most)
        _check(batch.spaces, batch.keys, "spaces")
        before = np.concatenate([[0], (batch.spaces == self._space).cumsum()])[batch.indptr]
        users = np.diff(before)
        bounds: NDArray[np.int64] = sizes + np.minimum(users * (sizes - users), self._most)
        return bounds

    def add(self, batch: Batch) -> tuple[Batch, NDArray[np.bool_]]:
        """Return the examples with their users' own features, which come last; and of which not all did fit, bool[n].

        AssertionError for a batch without the column that names users.
        """
        if self._space == _ZERO:
            _check(batch.users, batch.labels, "users")
        out, truncated = (
            batch.with_room(int(self.bounds(batch).sum()), roles=True),
            np.zeros(len(batch.labels), np.bool_),
        )
        with np.errstate(over="ignore"):  # keys are added mod 2^64; only interpreted code would tell
            z = _add(batch, self._space, self._most, out, truncated)
        return out.up_to(z), truncated


def _check(column: NDArray[np.uint64], other: NDArray[np.generic], name: str) -> None:
    if len(column) != len(other):
        raise AssertionError(
            f"expected a batch with {name}, as of Options.wanted_columns, found {len(column)} for {len(other)}"
        )


@kernel
def _add(batch: Batch, space: np.uint64, most: int, out: Batch, truncated: NDArray[np.bool_]) -> int:
    """Write the rows of `out`, whose arrays have room for them, and `truncated`; return how many features there are.

    space  the key of the namespace that names users; 0: an example has one user, `batch.users`
    """
    z = 0
    for row in range(len(batch.labels)):
        start = z
        first, stop = batch.indptr[row], batch.indptr[row + 1]
        for f in range(first, stop):
            if space == _ZERO or batch.spaces[f] != space:
                out.keys[z], out.values[z] = batch.keys[f], batch.values[f]
                if len(batch.roles):
                    out.roles[z] = batch.roles[f]
                if len(batch.spaces):
                    out.spaces[z] = batch.spaces[f]
                if len(batch.attributes):
                    out.attributes[z] = batch.attributes[f]
                z += 1
        end = z
        fits = most - 1 - (end - start)  # besides the constant
        if space == _ZERO:
            if batch.users[row] != _ZERO and fits >= 0:
                if fits < 1 + end - start:
                    truncated[row] = True
                else:
                    z = _add_user(out, batch.users[row], np.float32(1.0), batch.users[row], start, end, z)
        else:
            for f in range(first, stop):
                if batch.spaces[f] != space or fits < 0:
                    continue
                fits -= 1 + end - start
                if fits < 0:
                    truncated[row] = True
                    continue
                attribute = batch.attributes[f] if len(batch.attributes) else _ZERO
                z = _add_user(out, batch.keys[f], batch.values[f], attribute, start, end, z)
        out.indptr[row + 1] = z
    return z


@routine
def _add_user(out: Batch, user: np.uint64, x: np.float32, attribute: np.uint64, start: int, end: int, z: int) -> int:
    """Append a user's feature and its products with features [start, end), at z; return where they end.

    Products that overflow, that underflow, or whose keys sum to that of the constant, are left out, as in an expansion.
    """
    out.keys[z], out.values[z], out.roles[z] = user, x, ALONE
    if len(out.attributes):
        out.attributes[z] = attribute
    z += 1
    for f in range(start, end):
        key, product = np.uint64(user + out.keys[f]), np.float32(x * out.values[f])
        if key == _ZERO or not 0.0 < abs(product) < TOO_LARGE:
            continue
        out.keys[z], out.values[z], out.roles[z] = key, product, ALONE
        if len(out.attributes):
            known = attribute != _ZERO and out.attributes[f] != _ZERO
            out.attributes[z] = np.uint64(attribute + out.attributes[f]) if known else _ZERO
        z += 1
    return z
