"""Contributions sum to the score, have the names of what was given, and are what the model has."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple import AppleClassifier, AppleRegressor
from stream_apple.learners.apple.learner import as_apple
from stream_apple.monitoring.explanation import (
    CONSTANT,
    REST,
    ROUNDING,
    Contribution,
    Explanation,
    explain_row,
    explain_scores,
    total_of,
)
from stream_apple.river import AppleClassifier as RiverClassifier

PLANTED = {"device": ["phone", "desk"], "hour": ["day", "night"]}


def _frame(size: int = 600) -> tuple[pd.DataFrame, Any]:
    draw = np.random.default_rng(5)
    frame = pd.DataFrame({name: draw.choice(texts, size) for name, texts in PLANTED.items()})
    frame["age"] = draw.normal(size=size).round(2)
    return frame, np.where((frame["device"] == "phone") == (frame["hour"] == "night"), 1, -1)


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"mixture": False},
        {"method": "linear"},
        {"method": "quadratic"},
        {"discretise": "none"},
    ],
    ids=str,
)
def test_contributions_sum_to_the_score(chosen: dict[str, Any]) -> None:
    """Whatever is learned; without a mixture nothing is left for the rest."""
    frame, labels = _frame()
    model = AppleClassifier(shuffle=False, passes=1, **chosen).fit(frame, labels)
    for at in range(0, 600, 97):
        row = frame[at : at + 1]
        found = model.explain(row)
        assert math.isclose(math.fsum(each.amount for each in found), model.decision_function(row)[0], abs_tol=1e-9)
        assert {REST, CONSTANT} <= {each.name for each in found}
        rest = next(each.amount for each in found if each.name == REST)
        if not model._online.options.mixed:
            assert abs(rest) < 1e-5
        named = [each for each in found if each.name not in {REST, ROUNDING}]
        assert found[len(named)].name == REST
        assert total_of(found) == model.decision_function(row)[0]
        assert named == sorted(named, key=lambda each: -abs(each.amount))


def test_the_product_that_decides_is_named() -> None:
    """The planted pair is what the model has found, and what a row is explained by."""
    frame, labels = _frame(3000)
    model = AppleClassifier().fit(frame, labels)
    found = {each.name for each in model.monomials(20)}
    planted = {f"device={d} \u00d7 hour={h}" for d in PLANTED["device"] for h in PLANTED["hour"]}
    assert planted & found
    assert model.explain(frame[:1])[0].name in planted
    one = RiverClassifier()
    for x, y in zip(frame.to_dict("records"), labels == 1, strict=True):
        one.learn_one(x, y)
    explained = one.explain_one(frame.to_dict("records")[0])
    assert explained[0].name in planted
    assert planted & {each.name for each in one.monomials(20)}


@pytest.mark.parametrize("chosen", [{}, {"method": "linear"}, {"mixture": False}], ids=str)
def test_each_class_has_a_sum(chosen: dict[str, Any]) -> None:
    """Scores give the probabilities back; what is added to all classes alike is in none; one predictor has no rest."""
    frame, labels = _frame()
    three = np.where(frame["age"] > 0.8, 2, labels > 0)
    model = AppleClassifier(shuffle=False, passes=1, **chosen).fit(frame, three)
    learner, names = model._online.learner, model._featurizer.names
    row = model._rows(frame[:1], model._featurizer, reset=False)
    found = explain_scores(learner, names, row)
    assert [each.label for each in found] == [0, 1, 2]
    scores = np.array([each.score for each in found])
    assert np.allclose(np.exp(scores) / np.exp(scores).sum(), model.predict_proba(frame[:1])[0], rtol=1e-12)
    for each in found:
        assert total_of(each.contributions) == each.score
        assert len(each.predictors) == (3 if learner.options.mixed else 0)
        if not learner.options.mixed:
            assert abs(next(part.amount for part in each.contributions if part.name == REST)) < 1e-5
    assert abs(sum(part.amount for each in found for part in each.contributions)) < 1e-9
    assert model.explain(frame[:1]) == max(found, key=lambda each: each.score).contributions
    assert explain_row(learner, names, row, 1) == found[1].contributions
    assert explain_row(learner, names, row, np.float64(1)) == found[1].contributions, "as a model predicts it"
    for wrong in (3, -1, 1.5, "1"):
        with pytest.raises(ValueError, match=f"expected a class from 0 to 2, found {wrong!r}"):
            explain_row(learner, names, row, wrong)  # type: ignore[arg-type]


@given(amounts=st.lists(st.floats(-1e12, 1e12).map(lambda x: x * x * x), max_size=20), score=st.floats(-1e9, 1e9))
def test_the_sum_is_the_score_to_the_bit(amounts: list[float], score: float) -> None:
    """Whatever the sizes, and whatever rounding does, in the stated order."""
    named = [Contribution("a", 1.0, amount, amount) for amount in amounts]
    found = Explanation(0.0, named, []).of_score(score)
    assert total_of(found.contributions) == score
    assert found.contributions[: len(named)] == named
    assert found.of_score(1.0) == Explanation(1.0, named, []).of_score(1.0)


def test_predictors_of_a_mixture_have_sums_of_their_own() -> None:
    """A predictor's score is what its column adds up to, and the shares are the mixture's."""
    frame, labels = _frame(3000)
    model = AppleClassifier(shuffle=False).fit(frame, labels)
    learner = model._online.learner
    row = model._rows(frame[:1], model._featurizer, reset=False)
    (parts,) = learner.explain(row)
    assert len(parts.terms) == len({term.factors for term in parts.terms}), "a product of two parents is one feature"
    (found,) = explain_scores(learner, model._featurizer.names, row)
    assert [each.name for each in found.predictors] == list(as_apple(learner).predictors)
    assert [each.share for each in found.predictors] == as_apple(learner).mixture_weights().tolist()
    scores, named = (
        as_apple(learner).score(row),
        [each for each in found.contributions if each.name not in {REST, ROUNDING}],
    )
    for number, each in enumerate(found.predictors):
        assert math.isclose(each.score, sum(part.predictors[number] for part in named), abs_tol=1e-9)
    by_name = {each.name: each.score for each in found.predictors}
    assert math.isclose(by_name["expanded"], scores.expanded[0], abs_tol=1e-5)
    assert math.isclose(by_name["linear"], scores.linear[0], abs_tol=1e-5)
    for part in named:
        mixed = sum(amount * each.share for amount, each in zip(part.predictors, found.predictors, strict=True))
        assert math.isclose(part.amount, mixed, abs_tol=1e-9)


def test_what_has_no_one_row_is_refused() -> None:
    """More than one row, and a class of a model without."""
    frame, _ = _frame()
    model = AppleRegressor(bits=8).fit(frame, np.arange(600))
    with pytest.raises(ValueError, match="expected one row, found 2"):
        model.explain(frame[:2])
    row = model._rows(frame[:1], model._featurizer, reset=False)
    with pytest.raises(ValueError, match="label: expected None for a model with one score, found 0"):
        explain_row(model._online.learner, model._featurizer.names, row, 0)
