"""What is caught when so much ham may be lost."""

import numpy as np
import pytest

from stream_apple.study.logistic.spam import filter_threshold, uncaught_by_user


@pytest.mark.parametrize("ham", [1, 99, 100, 101, 250, 2900, 5800])
@pytest.mark.parametrize("different", [7, 50, 10**6])
def test_the_threshold_is_the_lowest_that_is_allowed(ham: int, different: int) -> None:
    """Beside a search over all scores: at most 1 % of the ham above it, ties counted, and no lower one has that."""
    rng = np.random.default_rng(ham + different)
    spam = rng.permutation(np.repeat([False, True], [ham, ham // 2 + 1]))
    scores = np.floor(different * (rng.random(len(spam)) + 0.3 * spam))
    threshold = filter_threshold(scores, spam)
    lost = {candidate: int((scores[~spam] > candidate).sum()) for candidate in np.unique(scores)}
    allowed = [candidate for candidate, count in lost.items() if 100 * count <= ham]
    caught = (scores[spam] > threshold).sum()
    assert 100 * (scores[~spam] > threshold).sum() <= ham
    assert caught == max((scores[spam] > candidate).sum() for candidate in allowed)


def test_percentages_are_reckoned_in_integers() -> None:
    """29 of 100, though .29 * 100 is less than 29 as a float."""
    scores, spam = np.arange(101.0), np.zeros(101, bool)
    spam[0] = True
    assert int(0.29 * 100) == 28
    assert (scores[~spam] > filter_threshold(scores, spam, 29)).sum() == 29


def test_equal_scores_share_their_fate() -> None:
    """A filter that says the same of all mails catches nothing."""
    spam = np.arange(300) % 2 == 0
    threshold = filter_threshold(np.zeros(300), spam)
    assert uncaught_by_user(np.zeros(300), spam, np.zeros(300, np.int64), threshold) == {0: 1.0}


def test_the_ends() -> None:
    """All ham may be lost, or there is none to set the threshold by."""
    assert filter_threshold(np.array([1.0, 2.0]), np.array([False, True]), 100) == -np.inf
    with pytest.raises(ValueError, match="expected ham"):
        filter_threshold(np.zeros(2), np.ones(2, bool))


def test_uncaught_of_each_user() -> None:
    """Of his own spam; what is at the threshold is not caught; who has no spam has no share."""
    scores = np.array([0.0, 1.0, 2.0, 3.0, 9.0])
    spam = np.array([True, True, True, True, False])
    users = np.array([0, 0, 2, 2, 3])
    assert uncaught_by_user(scores, spam, users, 2.0) == {0: 1.0, 2: 0.5}
