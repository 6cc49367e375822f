"""KDB and sKDB held against naive Bayes, a classifier that is made anew for each row left out, and a planted chain."""

import numpy as np
import pytest
from study.tuples.planted import discrete, exclusive_or, noisy_classes

from stream_apple.study.tuples.dependence import attribute_terms, find_dependence, fit_dependence
from stream_apple.study.tuples.index import all_tuples
from stream_apple.study.tuples.measures import worth_of
from stream_apple.study.tuples.model import count_model


def test_without_parents_it_is_naive_bayes() -> None:
    """With as many parameters."""
    table, trained, tested = noisy_classes(500, 3), np.arange(300), np.arange(300, 500)
    fit = fit_dependence(table, trained, tested, 0, selective=False)
    bayes = count_model(table, trained, all_tuples(4, 1))
    expected = worth_of(bayes.log_probabilities(bayes.prepare(table, tested)), table.labels[tested])
    np.testing.assert_allclose(fit.worth, expected, rtol=1e-9)
    assert fit.parameters == bayes.parameters


def test_parents_are_what_an_attribute_depends_on() -> None:
    """A copy with noise depends on its original, given the class, and comes after it: it says less."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 3_000)
    original = np.where(rng.random(3_000) < 0.5, labels, rng.integers(0, 2, 3_000))
    copy = np.where(rng.random(3_000) < 0.7, original, rng.integers(0, 2, 3_000))
    other = np.where(rng.random(3_000) < 0.3, labels, rng.integers(0, 2, 3_000))
    table = discrete(np.column_stack([copy, other, original]), labels)
    found = find_dependence(table, np.arange(3_000), 1)
    assert found.attributes[0] == 2
    assert dict(zip(found.attributes, found.parents, strict=True))[0] == (2,)
    assert find_dependence(table, np.arange(3_000), 0).parents == ((), (), ())
    assert sorted(map(len, find_dependence(table, np.arange(3_000), 2).parents)) == [0, 1, 2]


@pytest.mark.parametrize("parents", [(), (0,), (0, 3)])
def test_a_row_left_out_is_one_that_was_never_counted(parents: tuple[int, ...]) -> None:
    """Its own counts are subtracted, of the value, of the context and of the class."""
    table, rows = noisy_classes(60), np.arange(60)
    found = attribute_terms(table, rows, None, 2, parents)
    for row in range(60):
        others = np.delete(rows, row)
        np.testing.assert_allclose(found[row], attribute_terms(table, others, np.array([row]), 2, parents)[0])


def test_it_learns_what_needs_a_parent_and_leaves_out_what_misleads() -> None:
    """The exclusive or of two bits; sKDB stops before the noise, KDB counts it."""
    table, trained, tested = exclusive_or(1_200, 6), np.arange(800), np.arange(800, 1_200)
    assert fit_dependence(table, trained, tested, 0, selective=False).worth.error > 0.3
    noisy = discrete(np.column_stack([np.where(np.arange(1_200) % 10 == 0, 1 - table.codes[:, 0], table.codes[:, 0]),
                                      table.codes[:, 1:]]), table.labels)  # fmt: skip
    plain = fit_dependence(noisy, trained, tested, 2, selective=False)
    chosen = fit_dependence(noisy, trained, tested, 2, selective=True)
    assert chosen.worth.rmse <= plain.worth.rmse
    assert chosen.parents >= 1
    assert chosen.parameters <= plain.parameters
