"""Users planted over mails that have none: who gets which mail, who sees spam where others see ham; their own copies.

Real mails with users are private (Weinberger et al. 2009 had 430,000 of them). What is planted, and so what is found,
says only whether personal weights can be learned beside shared ones, and from how many mails.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.study.logistic.hashing import mixed
from stream_apple.study.logistic.sparse_rows import SparseRows, fold

INVERTED_RANK = 4  # of each ten: the middle one, so that a tenth of the users has about a tenth of the mails


class Mailbox(NamedTuple):
    """Mails with their users.

    rows   the mails; label 1 is spam, as the mail's user sees it
    keys   uint64[rows.size]: of each column
    users  int64[n]: by activity, 0 having most mails
    """

    rows: SparseRows
    keys: NDArray[np.uint64]
    users: NDArray[np.int64]

    def select(self, mails: NDArray[np.int64]) -> "Mailbox":
        """Those mails, int64[k], in the given order."""
        return self._replace(rows=self.rows.select(mails), users=self.users[mails])


def plant_users(
    rows: SparseRows, keys: NDArray[np.uint64], users: int, rng: np.random.Generator, *, inverted: bool
) -> Mailbox:
    """Each mail goes to one of the users, the one of rank r with a probability proportional to 1 / r (Zipf's law).

    inverted  every tenth user by rank has all labels the other way round
    """
    share = 1.0 / np.arange(1, users + 1)
    owners = rng.choice(users, len(rows.labels), p=share / share.sum()).astype(np.int64)
    labels = rows.labels
    if inverted:
        labels = np.where(owners % 10 == INVERTED_RANK, 1.0 - labels, labels)
    return Mailbox(rows._replace(labels=labels), keys, owners)


def with_copies(mails: Mailbox) -> tuple[SparseRows, NDArray[np.uint64]]:
    """The mails with features {w} and {u and w}, and the keys, uint64[z], of these entries: twice as many.

    Of each word there is a copy for the mail's user, whose key is a hash of both; the user alone is no feature.
    """
    rows = mails.rows
    shared = mails.keys[rows.columns]
    owners = np.repeat(mails.users, np.diff(rows.indptr)).astype(np.uint64)
    own = mixed(shared ^ mixed(owners, seed=1))
    keys = np.stack([shared, own], axis=1).ravel()
    values = np.repeat(rows.values, 2)
    return SparseRows(rows.indptr * 2, np.arange(len(keys)), values, rows.labels, len(keys)), keys


def hashed_mails(mails: Mailbox, bits: int, *, personal: bool) -> SparseRows:
    """All in one table of 2^bits slots: the words alone, or with each user's copies of them."""
    if personal:
        rows, keys = with_copies(mails)
    else:
        rows, keys = mails.rows, mails.keys[mails.rows.columns]
    slots = (mixed(keys) & np.uint64((1 << bits) - 1)).astype(np.int64)
    return fold(rows, slots, None, 1 << bits)
