"""Outliers among base features: they count as what is within reach, and their products are made of that."""

import numpy as np
import pytest
from learners.apple.test_learner import Row, batch_of, key, monomial_key
from support.bare_options import bare

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.scores import Scores


def learn(learner: Learner, rows: list[Row]) -> Scores:
    """All of them, without an epoch's end."""
    learner.learn(batch_of(rows), 0, len(rows), scores := Scores.empty(len(rows)))
    return scores


def scale_of(learner: Learner, *monomial: str) -> float:
    """The largest value that it was learned from."""
    slots = learner.slots()
    (place,) = np.flatnonzero(slots["key"] == monomial_key(monomial))
    return float(slots["scale"][place])


def signals(size: int, seed: int) -> list[Row]:
    """Fourteen normal ones, each of its own unit, and whether the product of two is positive."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(size, 14))
    labels = np.where(values[:, 0] * values[:, 1] > 0, 1.0, -1.0)
    units = 10.0 ** np.arange(-3, 4).repeat(2)
    return [
        Row({f"s{i}": float(v) for i, v in enumerate(row * units)}, float(label), 1.0)
        for row, label in zip(values, labels, strict=True)
    ]


def learned() -> Learner:
    """With products of s0 and s1."""
    learner = Learner(bare(bits=14, loss="logistic"))
    for start in range(0, 900, 300):
        learn(learner, signals(900, 1)[start : start + 300])
        learner.end_epoch()
    assert learner.census().monomials[2:].sum() > 10
    return learner


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_outlier_is_scored_as_the_value_within_reach(sign: float) -> None:
    """To the bit, by every predictor; what is within reach is scored as it is; the batch is left alone."""
    learner = learned()
    row = signals(901, 1)[-1]
    reach = float(np.float32(1.25) * np.float32(scale_of(learner, "s1")))

    def scores(value: float) -> list[bytes]:
        batch = batch_of([row._replace(features={**row.features, "s1": sign * value})])
        before = batch.values.copy()
        found = learner.score(batch)
        assert batch.values.tolist() == before.tolist()
        return [found.predictions.tobytes(), found.expanded.tobytes(), found.linear.tobytes()]

    assert scores(reach) == scores(reach * 1.001) == scores(reach * 1000) == scores(1e38)
    assert all(one != other for one, other in zip(scores(reach), scores(reach * 0.9), strict=True))


def test_products_are_made_of_what_is_within_reach() -> None:
    """The largest value of two outliers' product is that of what is within reach of each."""
    learner = learned()
    slots = learner.slots()
    before = dict(zip(slots["key"].tolist(), slots["scale"].tolist(), strict=True))
    row = signals(901, 1)[-1]
    learn(learner, [row._replace(features={**row.features, "s0": 1e6, "s1": 1e6})])
    slots = learner.slots()
    for name in ("s0", "s1"):
        assert scale_of(learner, name) == np.float32(1.25) * np.float32(before[key(name)])
    assert scale_of(learner, "s0", "s1") == pytest.approx(1.25**2 * before[key("s0")] * before[key("s1")])


@pytest.mark.parametrize(("mixture", "sights", "expected"), [(True, 19, 100.0), (True, 20, 1.25), (False, 50, 100.0)])
def test_features_that_are_not_established_take_any_value(mixture: bool, sights: int, expected: float) -> None:  # noqa: FBT001
    """Twenty sights establish one; and without a mixture there is no such rule."""
    learner = Learner(bare(bits=10, mixture=mixture))
    learn(learner, [Row({"a": 1.0 - at / 100}, float(at % 2), 1.0) for at in range(sights)])
    learn(learner, [Row({"a": -100.0}, 1.0, 1.0)])
    assert scale_of(learner, "a") == expected


def test_a_lasting_larger_unit_is_followed() -> None:
    """Values a thousand times as large count in full after log(1000) / log(1.25) = 31 examples."""
    learner = Learner(bare(bits=10))
    learn(learner, [Row({"a": 1.0}, 1.0, 1.0)] * 20)
    for sight in range(1, 40):
        learn(learner, [Row({"a": 1000.0}, 1.0, 1.0)])
        assert scale_of(learner, "a") == pytest.approx(min(1.25**sight, 1000.0), rel=1e-5)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_outlier_does_not_ruin_what_was_learned(seed: int) -> None:
    """A hundred among normals, in one of the two that tell: the loss of the next examples is hardly more."""
    rows, losses = signals(4000, seed), []
    for value in (None, 100.0):
        learner = Learner(bare(bits=14, loss="logistic"))
        for start in range(0, 4000, 200):
            part = rows[start : start + 200]
            if start == 3000 and value:
                part[0] = part[0]._replace(features={**part[0].features, "s0": value})
            scores = learn(learner, part)
            learner.end_epoch()
            if start == 2800:
                before = float(scores.losses.mean())
            if start == 3000:
                losses.append(float(scores.losses[1:].mean()))
    print(before, losses)
    assert before < 0.5, "there must be something to ruin"
    assert losses[1] < losses[0] + 0.06
