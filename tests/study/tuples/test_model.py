"""The model held against independent computations: naive Bayes, finite differences, Newton's method."""

from itertools import product
from math import comb, log

import numpy as np
import pytest
from numpy.typing import NDArray
from study.tuples.planted import discrete, noisy_classes

from stream_apple.study.tuples.discretisation import DiscreteTable
from stream_apple.study.tuples.index import all_tuples
from stream_apple.study.tuples.kernels import BETA, LOG_THETA, SQUARES
from stream_apple.study.tuples.measures import worth_of
from stream_apple.study.tuples.model import M, Prepared, TupleModel, anje_weight, count_model


def model_of(table: DiscreteTable, order: int, rows: int | None = None) -> TupleModel:
    """Of all tuples, counted on the first rows."""
    return count_model(table, np.arange(rows or len(table.labels)), all_tuples(len(table.cardinalities), order))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_estimates_add_up_to_one(order: int) -> None:
    """Over all |F| features of a tuple, seen or not, for each class: with N_y + m below, not the printed C + m."""
    table = noisy_classes(80, 3)
    model = model_of(table, order)
    of_class, theta = np.bincount(table.labels), np.exp(model.state[:-1, LOG_THETA])
    first = model.first_features()
    for which, size in enumerate(model.known.sizes()):
        seen = theta[first[which] : first[which + 1]]
        unseen = (size - len(seen)) * (M / size) / (of_class + M)
        np.testing.assert_allclose(seen.sum(axis=0) + unseen, 1.0)
    assert model.known.sizes()[0] == np.prod(table.cardinalities[:order])


def test_of_single_attributes_it_is_naive_bayes() -> None:
    """AnJE of order 1 has β = 1; on rows with values that training had not, which are passed over."""
    table, trained = noisy_classes(400, 3), 60
    model = model_of(table, 1, trained)
    assert set(model.state[:, BETA].ravel()) == {1.0}
    rows = model.prepare(table, np.arange(400))
    labels, codes = table.labels[:trained].tolist(), table.codes[:trained].tolist()
    expected = []
    for example in table.codes.tolist():
        logs = []
        for y in range(3):
            of_y = [code for code, label in zip(codes, labels, strict=True) if label == y]
            score = log((len(of_y) + M / 3) / (trained + M))
            for place, value in enumerate(example):
                if any(code[place] == value for code in codes):
                    size = int(table.cardinalities[place])
                    score += log((sum(code[place] == value for code in of_y) + M / size) / (len(of_y) + M))
            logs.append(score)
        total = log(sum(np.exp(logs)))
        expected.append([score - total for score in logs])
    np.testing.assert_allclose(model.log_probabilities(rows), expected, rtol=1e-10)


@pytest.mark.parametrize(("attributes", "order"), [(12, 2), (10, 3), (5, 5)])
def test_anje_counts_each_attribute_once(attributes: int, order: int) -> None:
    """Its weights, of all tuples that have one attribute, add up to 1; after selection they are the same."""
    members = all_tuples(attributes, order)
    assert (members == 0).any(axis=1).sum() * anje_weight(attributes, order) == pytest.approx(1.0)
    table = noisy_classes(50)
    some = count_model(table, np.arange(50), all_tuples(4, 2)[:2])
    assert set(some.state[:-1, BETA].ravel()) == {1 / comb(3, 1)}


@pytest.mark.parametrize("classes", [2, 3])
def test_the_gradient_is_that_of_finite_differences(classes: int) -> None:
    """Of log P(y|x) by every β: one step on one example has AdaGrad's sum its square, and the step its sign."""
    table = noisy_classes(50, classes)
    model = model_of(table, 2, 40)
    rng = np.random.default_rng(3)
    model.state[:, BETA] += rng.normal(size=model.state[:, BETA].shape) * 0.1
    one = model.prepare(table, np.arange(3, 4))
    before = model.state.copy()
    model.learn(one, 1e-3, 1)
    learned = np.sign(model.state[:, BETA] - before[:, BETA]) * np.sqrt(model.state[:, SQUARES])
    expected = np.zeros_like(learned)
    for feature, c in product(range(len(before)), range(classes)):
        sides = []
        for change in (-1e-5, 1e-5):
            model.state[:] = before
            model.state[feature, BETA, c] += change
            sides.append(model.log_probabilities(one)[0, one.labels[0]])
        expected[feature, c] = (sides[1] - sides[0]) / 2e-5
    assert (expected != 0).sum() == (comb(4, 2) + 1) * classes
    np.testing.assert_allclose(learned, expected, atol=1e-8)


def newton(design: NDArray[np.float64], labels: NDArray[np.int32], classes: int, scale: NDArray[np.float64]) -> float:
    """The least mean negative log likelihood of softmax regression with the weights scaled: float64[rows, features].

    scale  [features, classes]: what each weight is multiplied with before use
    """
    rows, features = design.shape
    weights = np.zeros((features, classes))
    one_hot = np.eye(classes)[labels]
    loss = np.inf
    for _ in range(15):
        scores = design @ (weights * scale)
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(axis=1, keepdims=True)
        loss = -np.log(shares[np.arange(rows), labels]).mean()
        gradient = (design.T @ (shares - one_hot)) * scale / rows
        hessian = np.zeros((features, classes, features, classes))
        for c, d in product(range(classes), repeat=2):
            curve = shares[:, c] * ((c == d) - shares[:, d]) / rows
            hessian[:, c, :, d] = (design.T * curve) @ design * scale[:, c, None] * scale[None, :, d]
        flat = hessian.reshape(features * classes, -1) + 1e-9 * np.eye(features * classes)
        weights -= np.linalg.solve(flat, gradient.ravel()).reshape(weights.shape)
    return float(loss)


def test_log_theta_only_rescales_the_coordinates() -> None:
    """The best that can be learned upon it is the best of plain logistic regression, and our passes come near it."""
    table = noisy_classes(300)
    model = model_of(table, 2)
    rows = model.prepare(table, np.arange(300))
    design = np.zeros((300, len(model.state)))
    np.put_along_axis(design, rows.features.astype(np.int64), 1.0, axis=1)
    design[:, -1] = 1.0
    scaled = newton(design, rows.labels, 2, model.state[:, LOG_THETA])
    plain = newton(design, rows.labels, 2, np.ones_like(model.state[:, LOG_THETA]))
    assert scaled == pytest.approx(plain, rel=1e-4)
    start = worth_of(model.log_probabilities(rows), rows.labels).log_loss
    for step in (0.02, 0.005, 0.001):
        model.learn(rows, step, 300)
    reached = worth_of(model.log_probabilities(rows), rows.labels).log_loss
    assert plain - 1e-9 <= reached < plain + 1e-3 < start


def test_adagrad_is_the_proper_one() -> None:
    """G += g², then β += η g / √G: the printed one adds g, divides by its size, and before it is added."""
    table = discrete(np.array([[0, 1], [1, 0], [1, 1], [0, 0]] * 10), np.array([0, 1, 1, 0] * 10))
    model = model_of(table, 1)
    rows = model.prepare(table, np.arange(8))
    beta, squares = model.state[:, BETA].copy(), np.zeros_like(model.state[:, BETA])
    theta = model.state[:, LOG_THETA]
    for features, label in zip(rows.features.tolist(), rows.labels.tolist(), strict=True):
        present = [*features, len(theta) - 1]
        scores = (beta * theta)[present].sum(axis=0)
        shares = np.exp(scores) / np.exp(scores).sum()
        gradient = (np.eye(2)[label] - shares) * theta[present]
        squares[present] += gradient**2
        beta[present] += 0.3 * gradient / np.sqrt(squares[present])
    model.learn(rows, 0.3, 1)
    np.testing.assert_allclose(model.state[:, BETA], beta, rtol=1e-12)
    np.testing.assert_allclose(model.state[:, SQUARES], squares, rtol=1e-12)
    model.learn(rows, 1e6, 20)
    assert np.isfinite(model.state).all()


def test_a_gradient_of_nothing_changes_nothing() -> None:
    """Where log θ is 0, or so small that its square is: no division by zero."""
    table = noisy_classes(50)
    model = model_of(table, 1)
    model.state[0, LOG_THETA] = 0.0
    model.state[1, LOG_THETA] = 1e-200
    before = model.state[:2].copy()
    model.learn(model.prepare(table, np.arange(50)), 0.1, 1)
    assert model.state[:2].tolist() == before.tolist()


def test_what_counts_are_too_sure_of_stays_finite() -> None:
    """AnJE is overconfident: a class that is far behind keeps a probability, so that log loss means something."""
    table = noisy_classes(50)
    model = model_of(table, 2)
    model.state[:, BETA] = 1e5
    rows = model.prepare(table, np.arange(50))
    logs = model.log_probabilities(rows)
    assert (logs >= -31.0).all()
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1.0)
    assert np.isfinite(worth_of(logs, rows.labels).log_loss)


def test_features_that_were_never_seen_say_nothing() -> None:
    """Neither in what is predicted nor in what is learned."""
    table = noisy_classes(50)
    model = model_of(table, 3, 10)
    strange = Prepared(np.full((2, 4), -1, np.int32), table.labels[:2])
    prior = model.state[-1, LOG_THETA]
    np.testing.assert_allclose(np.exp(model.log_probabilities(strange)), [np.exp(prior) / np.exp(prior).sum()] * 2)
    model.learn(strange, 0.1, 1)
    assert not model.state[:-1, SQUARES].any()
