"""Contributions sum to the score, have the names of what was given, and are what the model has."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stream_apple import AppleClassifier, AppleRegressor
from stream_apple.monitoring.explanation import CONSTANT, REST
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
        {"combine": "off"},
        {"method": "linear"},
        {"method": "quadratic"},
        {"l1": 0.0001},
        {"discretise": "quantile", "reservoir": 50},
        {"method": "linear", "collisions": "share"},
        {"warm_start": "naive_bayes"},
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
        assert {REST, CONSTANT} <= {each.name for each in found} or "collisions" in chosen
        rest = next(each.amount for each in found if each.name == REST)
        if model._online.options.combine == "off" and not chosen.get("warm_start"):
            assert abs(rest) < 1e-5
        assert found[-1].name == REST
        assert found[:-1] == sorted(found[:-1], key=lambda each: -abs(each.amount))


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


def test_what_has_no_one_score_is_refused() -> None:
    """A model of classes, and more than one row."""
    frame, _ = _frame()
    model = AppleClassifier().fit(frame, np.arange(600) % 3)
    with pytest.raises(ValueError, match="expected a model with one score"):
        model.explain(frame[:1])
    with pytest.raises(ValueError, match="expected one row, found 2"):
        AppleRegressor(bits=8).fit(frame, np.arange(600)).explain(frame[:2])
