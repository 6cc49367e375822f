"""The update of the five predictors, example by example, against float64 over dicts.

Each step begins with what the table then holds, so that float32's errors do not add up.
"""

import numpy as np
import pytest
from learners.apple.test_learner import Row, batch_of, monomial_key, planted_rows
from support.bare_options import bare
from support.oracles.learner import CONSTANT, Monomial, Oracle
from support.oracles.predictors import State, Step, within_reach

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import LossName
from stream_apple.learners.apple.state.weights import AVERAGE, SHRINKAGE, SHRUNK
from stream_apple.learners.label_units import LabelUnits
from stream_apple.learners.scores import Scores

WEIGHTS = ("linear_weight", "weight", "average", "fast", "slow_linear")


def states_of(learner: Learner, values: dict[Monomial, np.float32]) -> dict[Monomial, State]:
    """Of the monomials that have slots."""
    table = learner.table
    taken = np.flatnonzero(table.slots["key"])
    places = dict(zip(table.slots["key"][taken].tolist(), taken.tolist(), strict=True))
    places[0] = len(table.slots) - 1
    found = {}
    for monomial in values:
        if (place := places.get(monomial_key(monomial))) is None:
            continue
        slot, companion = table.slots[place], table.companions[place]
        weights = [float((companion if "linear" in name else slot)[name]) for name in WEIGHTS]
        gradient = [float(slot["gradient"]), float(companion["linear_gradient"])]  # of products, the second is 0
        found[monomial] = State(weights, gradient, float(slot["scale"]), int(slot["sights"]))
    return found


def examples(*, logistic: bool) -> list[Row]:
    """Zero slopes first: labels that are 0, if they may be. Then values that get wider and wider, and newcomers."""
    rows = [row for row in planted_rows(380, seed=3, names=9) if row.label is not None and row.weight > 0]
    rows = [
        row._replace(features={name: value * (1 + (at % 37 == 0) * at / 20) for name, value in row.features.items()})
        for at, row in enumerate(rows)
    ]
    if not logistic:
        rows = [row._replace(label=2.5 * (row.label or 0) + at % 3) for at, row in enumerate(rows)]
        rows[:4] = [row._replace(label=0.0) for row in rows[:4]]
    else:
        rows[200:280] = [row._replace(label=1.0) for row in rows[200:280]]  # until there is no doubt
    rows[300] = rows[300]._replace(features={**rows[300].features, "late": 2.0})
    return rows


@pytest.mark.parametrize(("loss", "rate"), [("squared", 0.5), ("squared", 5.0), ("logistic", 0.5), ("logistic", 30.0)])
def test_every_step_is_the_oracles(loss: LossName, rate: float) -> None:
    """Weights, accumulators, scales, sights and the shared sums, of base features, products and newcomers.

    Those that the example does not have stay as they were.
    """
    learner, oracle = Learner(bare(loss=loss, bits=10, learning_rate=rate)), Oracle()
    learner.units = LabelUnits(standardized=False)
    monomials: dict[int, Monomial] = {0: CONSTANT}
    newcomers, wider, outliers, doubtless = {1: 0, 2: 0}, 0, 0, 0
    for number, row in enumerate(examples(logistic=loss == "logistic")):
        features = within_reach(row.features, states_of(learner, {(name,): np.float32(0) for name in row.features}))
        outliers += sum(features[name] != np.float32(value) for name, value in row.features.items())
        values, _ = oracle.expand(features)
        monomials |= {monomial_key(monomial): monomial for monomial in values}
        before = states_of(learner, values)
        absent = states_of(learner, {m: np.float32(0) for m in monomials.values() if m not in values})
        sums = learner.sums
        step = Step(loss, rate, sums["norm"].tolist(), sums["weight"].tolist())
        label = float(row.label or 0.0)
        raw = step.scores(before, {monomial: float(values[monomial]) for monomial in before})
        scores = Scores.empty(1)
        learner.learn(batch_of([row]), 0, 1, scores)
        low, high = (-50.0, 50.0) if loss == "logistic" else sums["labels"].tolist()
        clipped = [float(score) for score in np.clip(raw, low, high)]
        assert [scores.linear[0], scores.expanded[0]] == pytest.approx(clipped[:2], rel=1e-4, abs=1e-4)
        after = states_of(learner, values)
        assert before.keys() <= after.keys()
        expected = dict(before)
        for monomial in after.keys() - before.keys():
            newcomers[min(len(monomial), 2)] += 1
            expected[monomial] = State()
        wider += sum(abs(float(values[m])) > before[m].scale > 0 for m in before)
        doubtless += loss == "logistic" and max(clipped) * label > 17 > min(clipped) * label
        starts = {m: s.gradient[0] for m, s in before.items()}
        for monomial in after:
            if monomial not in starts and len(monomial) > 1:
                expected[monomial].gradient[0] = closest(monomial, values, starts, after, clipped[1], label, row, loss)
        step.learn(expected, {m: float(values[m]) for m in expected}, clipped, label, row.weight)
        size = max(1.0, *(abs(w * state.scale) for state in expected.values() for w in state.weights))
        rested = states_of(learner, dict.fromkeys(absent, np.float32(0)))
        assert [state.weights for state in rested.values()] == [absent[monomial].weights for monomial in rested]
        got, wanted = [after[monomial] for monomial in expected], list(expected.values())
        np.testing.assert_allclose(
            [np.array(state.weights) * state.scale for state in got],
            [np.array(state.weights) * state.scale for state in wanted],
            rtol=5e-4,
            atol=2e-4 * size,
        )
        np.testing.assert_allclose(
            [state.gradient for state in got], [state.gradient for state in wanted], rtol=1e-3, atol=1e-9
        )
        assert [state.scale for state in got] == pytest.approx([state.scale for state in wanted], rel=1e-6)
        assert [state.sights for state in got] == [state.sights for state in wanted]
        assert sums["norm"].tolist() == pytest.approx(step.norm, rel=1e-5)
        assert sums["weight"].tolist() == pytest.approx(step.weight, rel=1e-12)
        if number % 60 == 59:
            learner.end_epoch()
            slots = learner.slots()
            oracle.parents = {monomials[int(key)] for key in slots["key"][slots["parent"] == 1]}
    assert newcomers[1] >= 9
    assert newcomers[2] > 20
    assert wider > 20
    assert outliers > 10
    assert doubtless > 10 or rate < 30, "some must need no correction, and others must"


def closest(
    monomial: Monomial, values: dict[Monomial, np.float32], starts: dict[Monomial, float],
    after: dict[Monomial, State], score: float, label: float, row: Row, loss: LossName,
) -> float:  # fmt: skip
    """A tenth of one of its parents' accumulators, in units of its own value: of which one, the table tells."""
    slope = 4 * (score - label) ** 2 if loss == "squared" else 1 / (1 + np.exp(score * label)) ** 2
    if loss == "logistic" and score * label > 24 * np.log(2):
        slope = 0.0
    value = float(values[monomial])
    found = after[monomial].gradient[0] - row.weight * slope * value**2
    parents = {tuple(sorted(set_without(monomial, name))) for name in monomial}
    offers = [0.1 * starts[parent] * (value / float(values[parent])) ** 2 for parent in parents if parent in starts]
    return min(offers, key=lambda offer: abs(offer - found))


def set_without(monomial: Monomial, name: str) -> list[str]:
    """Its factors but for one of that name."""
    rest = list(monomial)
    rest.remove(name)
    return rest


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_shrunk_predictor_has_the_average_weights_less_their_noise(loss: LossName) -> None:
    """Its score before each example is what dicts say."""
    learner = Learner(bare(loss=loss, bits=11))
    learner.units = LabelUnits(standardized=False)
    oracle, monomials = Oracle(), {0: CONSTANT}
    factors = []
    for number, row in enumerate(examples(logistic=loss == "logistic")):
        features = within_reach(row.features, states_of(learner, {(name,): np.float32(0) for name in row.features}))
        values, _ = oracle.expand(features)
        monomials |= {monomial_key(monomial): monomial for monomial in values}
        expected = 0.0
        for monomial, state in states_of(learner, values).items():
            square = (state.weights[AVERAGE] * state.scale) ** 2
            factors.append(square / (square + SHRINKAGE))
            expected += state.weights[AVERAGE] * factors[-1] * float(values[monomial])
        scores = Scores.empty(1, early=True)
        learner.learn(batch_of([row]), 0, 1, scores)
        low, high = (-50.0, 50.0) if loss == "logistic" else learner.sums["labels"].tolist()
        assert scores.early[0, SHRUNK] == pytest.approx(min(max(expected, low), high), rel=1e-4, abs=1e-4)
        if number % 60 == 59:
            learner.end_epoch()
            slots = learner.slots()
            oracle.parents = {monomials[int(key)] for key in slots["key"][slots["parent"] == 1]}
    assert np.quantile(factors, 0.1) < 0.5
    assert np.quantile(factors, 0.9) > 0.9
