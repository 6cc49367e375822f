"""Scores that start from naive Bayes, against naive Bayes and AnJE as they are defined, kept in dicts."""

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from learners.apple.test_learner import Row, batch_of, key
from support.restoring import restored

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.kernels.naive_bayes import TRUST
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Method, Options, WarmStart
from stream_apple.learners.scores import Scores

START = Options(method="linear", loss="logistic", bits=14, warm_start="naive_bayes")
UNLEARNED: dict[str, Any] = {"learning_rate": 1e-30}
"""So small that scores stay where they start."""
M = 0.1


class Definition:
    """AnJE of order n, and trust in it, in exact words and floats."""

    def __init__(self, order: int) -> None:
        self.order = order
        self.seen: dict[tuple[str, ...], dict[bool, float]] = defaultdict(lambda: {True: 0.0, False: 0.0})
        self.of_class = {True: 0.0, False: 0.0}
        self.trust, self.curvature = 0.0, 0.0

    def theta(self, chosen: tuple[str, ...], *, label: bool) -> float:
        """The m-estimate of how frequent a tuple is in a class."""
        marginal = sum(self.seen[chosen].values()) / sum(self.of_class.values())
        return (self.seen[chosen][label] + M * marginal) / (self.of_class[label] + M)

    def odds(self, features: dict[str, float]) -> float:
        """Of label 1; those that were never seen, and those whose value is not 1, say nothing."""
        known = sorted(name for name, value in features.items() if value == 1.0 and (name,) in self.seen)
        if not sum(self.of_class.values()):
            return 0.0
        votes = [
            math.log(self.theta(chosen, label=True) / self.theta(chosen, label=False))
            for chosen in itertools.combinations(known, self.order)
            if chosen in self.seen
        ]
        weight = 1 / max(math.comb(len(known) - 1, self.order - 1), 1) if known else 0.0
        prior = math.log((self.of_class[True] + 1) / (self.of_class[False] + 1))
        return prior + weight * math.fsum(votes)

    def learn(self, row: Row) -> None:
        """Trust by a step of Newton's method, then the counts."""
        assert row.label is not None
        odds = self.odds(row.features)
        slope = row.label / (1 + math.exp(self.trust * odds * row.label))
        self.curvature = 0.99 * self.curvature + row.weight * max(slope**2, abs(slope) * (1 - abs(slope))) * odds**2
        self.trust = min(max(self.trust + row.weight * slope * odds / (self.curvature + 1), 0.0), 100.0)
        self.of_class[row.label > 0] += row.weight
        for order in range(1, self.order + 1):
            for chosen in itertools.combinations(sorted(row.features), order):
                self.seen[chosen][row.label > 0] += row.weight


def categories(size: int, seed: int, *, values: int = 4, attributes: int = 5) -> list[Row]:
    """Examples of a category an attribute; the label goes by two of them together; some weigh more."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, values, (size, attributes))
    labels = np.where((drawn[:, 0] == drawn[:, 1]) ^ (rng.random(size) < 0.1), 1.0, -1.0)
    return [
        Row({f"a{i}={value}": 1.0 for i, value in enumerate(row)}, float(label), float(weight))
        for row, label, weight in zip(drawn, labels, rng.choice([1.0, 2.0], size), strict=True)
    ]


def learned(options: Options, batch: Batch) -> tuple[Learner, Scores]:
    """From its first row to its last."""
    learner, scores = Learner(options), Scores.empty(len(batch.labels))
    learner.learn(batch, 0, len(batch.labels), scores)
    return learner, scores


@pytest.mark.parametrize(("method", "order"), [("linear", 1), ("quadratic", 2), ("cubic", 3)])
def test_scores_start_from_naive_bayes(method: Method, order: int) -> None:
    """Of the examples before: an example does not count for its own score. Numbers and strangers say nothing."""
    rows, defined = categories(400, 1), Definition(order)
    for at in range(0, 400, 3):
        rows[at].features["number"] = [0.5, 2.0, -1.0][at % 9 // 3]
    for at in range(200, 400, 7):
        rows[at].features[f"stranger{at}"] = 1.0
    _, scores = learned(replace(START, method=method, bits=18, **UNLEARNED), batch_of(rows))
    for row, score in zip(rows, scores.predictions, strict=True):
        assert score == pytest.approx(min(max(defined.trust * defined.odds(row.features), -50), 50), abs=1e-9)
        defined.learn(row)
    for label in (True, False):
        assert math.fsum(defined.theta((f"a0={value}",), label=label) for value in range(4)) == pytest.approx(1.0)


def test_of_features_alone_it_is_naive_bayes() -> None:
    """Order 1 against the frequencies that two independent bits were drawn with."""
    rng = np.random.default_rng(2)
    labels = rng.random(20_000) < 0.3
    bits = np.where(labels[:, None], rng.random((20_000, 2)) < [0.8, 0.4], rng.random((20_000, 2)) < [0.5, 0.6])
    rows = [
        Row({f"{name}={int(bit)}": 1.0 for name, bit in zip("ab", pair, strict=True)}, 1.0 if label else -1.0, 1.0)
        for pair, label in zip(bits, labels, strict=True)
    ]
    learner, _ = learned(replace(START, **UNLEARNED), batch_of(rows))
    (score,) = learner.predict(batch_of([Row({"a=1": 1.0, "b=0": 1.0}, None, 1.0)]))
    true = math.log(0.3 / 0.7) + math.log(0.8 / 0.5) + math.log(0.6 / 0.4)
    assert score / learner.sums["start"][TRUST] == pytest.approx(true, abs=0.1)
    assert learner.sums["start"][TRUST] == pytest.approx(1.0, abs=0.3)  # they are independent: naive Bayes is right


@pytest.mark.parametrize(
    "options", [START, replace(START, method="quadratic"), replace(START, method="apple")], ids=str
)
def test_what_is_learned_is_added(options: Options) -> None:
    """A score is the start and the sum of weights, which the start is no part of."""
    batch = batch_of(categories(300, 3))
    learner, _ = learned(options, batch)
    bare, _ = learned(replace(options, **UNLEARNED), batch)
    assert np.array_equal(bare.sums["start"], learner.sums["start"])
    slots = learner.slots()
    weights = dict(zip(slots["key"][:-1].tolist(), slots["weight"][:-1].astype(float), strict=True))
    for row in categories(20, 4):
        keys = [key(name) for name in row.features]
        present = {*keys}
        if options.method == "quadratic":
            present |= {sum(pair) % (1 << 64) for pair in itertools.combinations_with_replacement(keys, 2)}
        one = batch_of([row])
        sums = slots["weight"][-1] + sum(weights.get(monomial, 0.0) for monomial in present)
        if not options.mixed:
            assert learner.predict(one)[0] - bare.predict(one)[0] == pytest.approx(sums, abs=1e-4)
        else:
            assert learner.score(one).apple[0] - bare.score(one).apple[0] == pytest.approx(sums, abs=1e-4)


def test_a_mixture_is_compared_with_a_linear_predictor_of_its_own_making() -> None:
    """The linear predictors start at 0, so that to be never worse than they are means what it did."""
    batch = batch_of(categories(2000, 5))
    options = replace(START, method="apple", combine=None)
    _, warm = learned(options, batch)
    _, cold = learned(replace(options, warm_start="none"), batch)
    assert np.array_equal(warm.linear, cold.linear)
    assert not np.array_equal(warm.apple, cold.apple)


def hands(size: int, seed: int) -> list[Row]:
    """Five cards of a deck, as ten categories: label 1 if two have the same rank, no three and no flush or straight."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    while len(rows) < size:
        cards = rng.permutation(52)[:5]
        ranks, suits = cards % 13, cards // 13
        different = len(set(ranks.tolist()))
        if different >= 4 and len(set(suits.tolist())) > 1:
            features = {
                f"{what}{place}={value}": 1.0
                for what, of in (("c", ranks), ("s", suits))
                for place, value in enumerate(of)
            }
            rows.append(Row(features, 1.0 if different == 4 else -1.0, 1.0))
    return rows


def test_early_predictions_are_useful() -> None:
    """Poker hands, whose single cards say nothing: what pairs say is known long before weights have learned it."""
    batch = batch_of(hands(6000, 6))
    options = replace(START, method="quadratic", bits=18)
    errors = {}
    starts: tuple[WarmStart, ...] = ("naive_bayes", "none")
    for name in starts:
        _, scores = learned(replace(options, warm_start=name), batch)
        errors[name] = (scores.predictions > 0) != (batch.labels > 0)
    assert errors["naive_bayes"][1000:].mean() < 0.15
    assert errors["none"][1000:].mean() > 0.35
    assert errors["naive_bayes"][-1000:].mean() < 0.03


def test_what_is_said_often_is_not_believed_more() -> None:
    """Thirty copies of one feature are thirty witnesses to naive Bayes: believed, they would lose more than a coin."""
    rng = np.random.default_rng(7)
    labels = np.where(rng.random(3000) < 0.5, 1.0, -1.0)
    says = np.where(rng.random(3000) < 0.7, labels, -labels)
    rows = [
        Row({f"{copy}={said}": 1.0 for copy in range(30)}, float(label), 1.0)
        for label, said in zip(labels, says, strict=True)
    ]
    learner, scores = learned(replace(START, **UNLEARNED), batch_of(rows))
    assert learner.sums["start"][TRUST] < 0.1
    assert scores.losses[500:].mean() < 0.64  # .611 is what there is to know; untempered odds of +-25 lose 7.6


class TestState:
    """It is of the model: digests see it, and predictions leave it alone."""

    ALL = (
        START,
        replace(START, method="quadratic", bits=10),
        replace(START, method="cubic", bits=12),
        replace(START, method="apple", bits=9),
        replace(START, method="apple", combine="off", parents=None, selection="mi", product_budget=None, bits=9),
    )

    @pytest.mark.parametrize("options", ALL, ids=str)
    def test_wherever_batches_are_cut(self, options: Options) -> None:
        """And wherever a model is written and read again."""
        batch, digests = batch_of(categories(240, 8)), set()
        for step in (240, 40, 7):
            learner, scores = Learner(options), Scores.empty(240)
            for start in range(0, 240, step):
                if step == 40:
                    learner = restored(learner)
                for first in range(start, min(start + step, 240), 20 if step == 240 else step):
                    learner.learn(batch, first, min(first + (20 if step == 240 else step), start + step, 240), scores)
            digests.add(learner.digest() + scores.predictions.tobytes().hex())
        assert len(digests) == 1

    def test_predictions_leave_it_alone(self) -> None:
        """Not a bit of it changes."""
        learner, _ = learned(self.ALL[1], batch_of(categories(100, 9)))
        before = learner.digest()
        learner.predict(batch_of(categories(50, 10)))
        assert learner.digest() == before

    def test_the_digest_sees_trust(self) -> None:
        """And without it, no array has its name."""
        learner, _ = learned(START, batch_of(categories(100, 9)))
        before = learner.digest()
        learner.sums["start"][TRUST] += 1e-9
        assert learner.digest() != before
        assert "start" not in Learner(replace(START, warm_start="none")).sums


@pytest.mark.parametrize(
    ("chosen", "fault"),
    [
        ({"loss": "squared"}, "warm_start: expected none with loss squared, found 'naive_bayes'"),
        ({"descent": "plain", "l2": 0.1}, "warm_start: expected none with descent = plain, found 'naive_bayes'"),
        ({"warm_start": "hot"}, "warm_start: expected one of none, naive_bayes, found 'hot'"),
    ],
    ids=str,
)
def test_where_there_are_no_classes_there_is_no_start(chosen: dict[str, Any], fault: str) -> None:
    """Refused, with what was expected and found."""
    with pytest.raises(ValueError, match="expected") as caught:
        replace(START, **chosen)
    assert str(caught.value) == fault


def test_models_without_it_keep_their_names() -> None:
    """What was no option names no model."""
    assert "warm_start" not in replace(START, warm_start="none").identity()
    assert START.identity()["warm_start"] == "naive_bayes"
