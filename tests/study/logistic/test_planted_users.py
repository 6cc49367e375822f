"""Users over mails, and their own copies of words."""

import numpy as np
from study.logistic.sample_rows import dense, random_rows, rows_from

from stream_apple.study.logistic.hashing import AdaptiveLogistic
from stream_apple.study.logistic.planted_users import Mailbox, hashed_mails, plant_users, with_copies
from stream_apple.study.logistic.sparse_rows import SparseRows

KEYS = np.array([11, 12, 13], np.uint64)
BITS = 22


def mailbox(rows: SparseRows, users: list[int]) -> Mailbox:
    """With three words."""
    return Mailbox(rows, KEYS, np.array(users, np.int64))


def test_activity_and_inversion() -> None:
    """By Zipf's law; every tenth user by rank, and nobody else, has all labels the other way round."""
    rng = np.random.default_rng(1)
    rows = random_rows(rng, 20_000, 3, most=1)
    mails = plant_users(rows, KEYS, 50, np.random.default_rng(2), inverted=True)
    counts = np.bincount(mails.users, minlength=50)
    expected = 20_000 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum()
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    turned = mails.rows.labels != rows.labels
    assert sorted(set(mails.users[turned])) == [4, 14, 24, 34, 44]
    assert turned[np.isin(mails.users, [4, 14, 24, 34, 44])].all()
    plain = plant_users(rows, KEYS, 50, np.random.default_rng(2), inverted=False)
    np.testing.assert_array_equal(plain.users, mails.users)
    np.testing.assert_array_equal(plain.rows.labels, rows.labels)


def test_copies_are_explicit_features() -> None:
    """A word and its copy for the user, of the word's value: the same key for the same two, another for others."""
    rows = rows_from([(1.0, {0: 0.5, 2: -1.0}), (0.0, {0: 2.0}), (1.0, {0: 3.0})], 3)
    copied, keys = with_copies(mailbox(rows, [7, 8, 7]))
    assert list(copied.indptr) == [0, 4, 6, 8]
    assert list(copied.values) == [0.5, 0.5, -1.0, -1.0, 2.0, 2.0, 3.0, 3.0]
    assert list(keys[::2]) == [11, 13, 11, 11]
    of_7, other_word, of_8, again = keys[1::2]
    assert of_7 == again
    assert len({of_7, other_word, of_8, 11, 13}) == 5


def test_a_user_without_history_has_the_shared_part() -> None:
    """To the bit, what the shared weights alone say of his mail."""
    rng = np.random.default_rng(3)
    rows = random_rows(rng, 200, 3)
    model = AdaptiveLogistic(1 << BITS, 0.3)
    model.learn(hashed_mails(mailbox(rows, [i % 2 for i in range(200)]), BITS, personal=True))
    news = rows_from([(1.0, {0: 1.0, 1: 2.0}), (0.0, {2: 1.0})], 3)
    shared = model.predict(hashed_mails(mailbox(news, [5, 5]), BITS, personal=False))
    np.testing.assert_array_equal(model.predict(hashed_mails(mailbox(news, [5, 5]), BITS, personal=True)), shared)
    known = model.predict(hashed_mails(mailbox(news, [0, 1]), BITS, personal=True))
    assert (known != shared).all()


def test_personal_weights_learn_what_shared_ones_can_t() -> None:
    """Two users who see the same word the other way round: shared weights stay at chance, personal ones don't."""
    rng = np.random.default_rng(4)
    users = rng.integers(0, 2, 2000)
    labels = (users == 0).astype(float)
    rows = rows_from([(label, {0: 1.0}) for label in labels], 3)
    wrong = {}
    for personal in (False, True):
        scores = AdaptiveLogistic(1 << BITS, 0.3).learn(
            hashed_mails(mailbox(rows, list(users)), BITS, personal=personal)
        )
        wrong[personal] = ((scores > 0) != (labels > 0))[500:].mean()
    assert wrong[False] > 0.4
    assert wrong[True] == 0


def test_without_copies_the_words_are_hashed_alone() -> None:
    """Who reads a mail makes no difference."""
    rows = rows_from([(1.0, {0: 0.5, 2: -1.0}), (0.0, {0: 2.0})], 3)
    one, other = (hashed_mails(mailbox(rows, users), 6, personal=False) for users in ([0, 0], [1, 2]))
    np.testing.assert_array_equal(dense(one), dense(other))
