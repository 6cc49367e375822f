"""Scores of tuples, by what information theory says of them, and which are kept by them."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from study.tuples.planted import discrete, exclusive_or, noisy_classes

from stream_apple.study.tuples.discretisation import DiscreteTable
from stream_apple.study.tuples.index import Members, all_tuples
from stream_apple.study.tuples.model import count_model
from stream_apple.study.tuples.selection import (
    errors_without,
    information,
    keep_best,
    mutual_information,
    select_by_level,
    select_features,
    select_tuples,
)


def scores_of(table: DiscreteTable, members: Members) -> NDArray[np.float64]:
    """I(T; Y) of each tuple, on all rows."""
    return mutual_information(count_model(table, np.arange(len(table.labels)), members), np.bincount(table.labels))


def test_information_of_an_exclusive_or() -> None:
    """Each bit alone says nothing, both say all: ln 2; what was planted to be irrelevant comes last."""
    table = exclusive_or(4000, 2)
    assert scores_of(table, all_tuples(4, 1))[:2].tolist() == pytest.approx([0.0, 0.0], abs=1e-12)
    pairs = scores_of(table, all_tuples(4, 2))
    assert pairs[0] == pytest.approx(np.log(2))
    assert pairs[1:].max() < 0.01
    assert (pairs >= 0).all()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_information_is_that_of_the_definition(order: int) -> None:
    """H(T) + H(Y) - H(T, Y) of the joint counts; renaming values and classes changes nothing."""
    table = noisy_classes(300, 3)

    def entropy(columns: NDArray[np.int32]) -> float:
        shares = np.unique(columns, axis=0, return_counts=True)[1] / len(columns)
        return float(-(shares * np.log(shares)).sum())

    labels = table.labels[:, None]
    expected = [
        entropy(part) + entropy(labels) - entropy(np.hstack([part, labels]))
        for part in (table.codes[:, list(chosen)] for chosen in combinations(range(4), order))
    ]
    found = scores_of(table, all_tuples(4, order))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    renamed = discrete(table.cardinalities - 1 - table.codes, 2 - table.labels)
    np.testing.assert_allclose(scores_of(renamed, all_tuples(4, order)), found, atol=1e-12)


def test_summands_of_features_add_up_to_the_tuple() -> None:
    """Each is P(F) KL(P(Y|F) || P(Y)), and not below 0."""
    table = noisy_classes(300, 3)
    model, of_class = count_model(table, np.arange(300), all_tuples(4, 2)), np.bincount(table.labels)
    summands = information(model.counts, of_class)
    assert (summands > -1e-15).all()
    given = model.counts / model.counts.sum(axis=1, keepdims=True)
    ratios = np.log(given, out=np.zeros_like(given), where=given > 0) - np.log(of_class / 300)
    np.testing.assert_allclose(summands, model.counts.sum(axis=1) / 300 * (given * ratios).sum(axis=1), atol=1e-12)
    of_tuples = [summands[a:b].sum() for a, b in pairwise(model.first_features())]
    np.testing.assert_allclose(mutual_information(model, of_class), of_tuples)


def test_what_is_relevant_is_kept_though_it_says_nothing_alone() -> None:
    """Tuples of one order are scored as such; level by level, the exclusive or is lost with its bits."""
    table = exclusive_or(400, 6)

    def score(members: Members) -> NDArray[np.float64]:
        return scores_of(table, members)

    assert select_tuples(table, 2, 0.05, score).tolist() == [[0, 1]]
    assert [0, 1] not in select_by_level(table, 2, 0.5, score).tolist()


def test_levels_have_all_their_parts() -> None:
    """A candidate is one of which every tuple of one attribute less was kept; of these the share is kept."""
    table = noisy_classes(300)
    asked: list[Members] = []

    def score(members: Members) -> NDArray[np.float64]:
        asked.append(members)
        return scores_of(table, members)

    # Four single attributes, five of six pairs, and one of the two triples that don't have the sixth.
    kept = select_by_level(table, 3, 0.6 + 0.275, score)
    singles, pairs, triples = asked
    assert (len(singles), len(pairs), len(triples)) == (4, 6, 2)
    (worst,) = pairs[np.argsort(scores_of(table, pairs))[:1]].tolist()
    assert all(not set(worst) <= set(each) for each in triples.tolist())
    assert len(kept) == 2
    # Of three pairs two are kept: no triple has all of its pairs, and the pairs are what is left.
    asked.clear()
    kept = select_by_level(table, 3, 0.75, score)
    best = asked[0][np.argsort(-scores_of(table, asked[0]))[:3], 0]
    assert asked[1].tolist() == [list(each) for each in combinations(sorted(best.tolist()), 2)]
    assert (len(asked), kept.shape) == (2, (2, 2))


def test_features_have_all_their_parts() -> None:
    """Of features, too: those are kept that say most, of the ones whose parts were all kept."""
    table, rows = noisy_classes(300), np.arange(200)
    of_class = np.bincount(table.labels[:200])
    kept: dict[tuple[tuple[int, int], ...], bool] = {}
    for order in (1, 2, 3):
        scores = {}
        for chosen in combinations(range(4), order):
            for values in np.unique(table.codes[:200][:, chosen], axis=0):
                feature = tuple(zip(chosen, values.tolist(), strict=True))
                if order == 1 or all(kept.get(part, False) for part in combinations(feature, order - 1)):
                    has = (table.codes[:200][:, chosen] == values).all(axis=1)
                    counts = np.bincount(table.labels[:200][has], minlength=2)
                    scores[feature] = information(counts[None].astype(np.int32), of_class)[0]
        best = sorted(scores, key=lambda feature: -scores[feature])[: round(0.6 * len(scores))]
        kept |= dict.fromkeys(best, True)
        found = select_features(table, rows, order, 0.6)
        assert found.features == len(best) > 0
        is_known = found.find(table.codes, np.arange(300)) >= 0
        for which, chosen in enumerate(combinations(range(4), order)):
            features = [tuple(zip(chosen, codes[list(chosen)].tolist(), strict=True)) for codes in table.codes]
            assert is_known[:, which].tolist() == [feature in best for feature in features]


def test_a_share_of_tuples_is_kept() -> None:
    """The best, in their order, at least one; t is the share that is kept."""
    members = all_tuples(5, 2)
    scores = np.array([0.0, 5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0])
    assert keep_best(members, scores, 0.3).tolist() == members[[6, 7, 8]].tolist()
    assert keep_best(members, scores, 0.01).tolist() == members[[6]].tolist()
    assert keep_best(members, np.zeros(10), 0.2).tolist() == members[:2].tolist()
    for wrong in (0.0, 2.0):
        with pytest.raises(ValueError, match="share above 0 and at most 1"):
            keep_best(members, scores, wrong)


def test_the_dearest_tuple_is_the_one_that_is_missed_most() -> None:
    """By errors without it: the greater the better it is to keep. The exclusive or is missed, noise is not."""
    table = exclusive_or(800, 3)
    model = count_model(table, np.arange(400), all_tuples(5, 2))
    model.learn(model.prepare(table, np.arange(400)), 0.01, 5)
    scores = errors_without(model, model.prepare(table, np.arange(400, 800)))
    assert scores.argmax() == 0
    assert scores[0] > 0.4
    assert scores[1:].max() < 0.1
