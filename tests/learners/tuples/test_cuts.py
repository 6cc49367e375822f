"""Where numbers are cut into intervals, and what becomes of their values."""

import numpy as np
import pytest
from learners.batches import batch_of, key_of, learn_all, scores_of
from learners.tuples.codes import number_batch, tuple_learner
from numpy.typing import NDArray

from stream_apple.learners.port import Factor
from stream_apple.learners.tuples.cuts import cuts_of, equal_cuts, fit_cuts, informative_cuts
from stream_apple.learners.tuples.display import intervals_of

FEW = 12


def numbers(values: list[float]) -> NDArray[np.float32]:
    """Return float32[n]."""
    return np.array(values, np.float32)


class TestEqualCuts:
    """Quantiles."""

    def test_intervals_have_equally_many_values(self) -> None:
        """Of 1,600 different values, 16 intervals have about 100 each."""
        values = np.random.default_rng(1).permutation(1600).astype(np.float32)
        cuts = equal_cuts(values, 16)
        sizes = np.bincount(np.searchsorted(cuts, values, side="right"))
        assert len(sizes) == 16
        assert sizes == pytest.approx(100, abs=1)

    def test_few_values_have_an_interval_each(self) -> None:
        """The smallest is below the first cut."""
        assert equal_cuts(numbers([3, 1, 2, 2, 9] * 10), 16).tolist() == [2, 3, 9]

    def test_a_frequent_value_is_alone_in_its_interval(self) -> None:
        """Half of the values are 0: another cut follows it."""
        values = np.concatenate([np.zeros(500), np.arange(1, 501)]).astype(np.float32)
        assert 1.0 in equal_cuts(values, 8).tolist()


class TestInformativeCuts:
    """Fayyad and Irani's cuts."""

    def test_they_are_where_labels_change(self) -> None:
        """Of labels that are positive between 20 and 60."""
        values = np.random.default_rng(2).permutation(100).astype(np.float32)
        assert informative_cuts(values, (values >= 20) & (values < 60)).tolist() == [20, 60]

    def test_noise_has_none(self) -> None:
        """Labels that do not depend on the value."""
        generator = np.random.default_rng(3)
        assert not len(informative_cuts(generator.normal(size=400).astype(np.float32), generator.random(400) < 0.5))

    def test_the_price_of_a_cut_is_that_of_the_paper(self) -> None:
        """Few values are cut if labels are pure on both sides, and not if one label is on the wrong side."""
        values = numbers([1, 2, 3, 4])
        labels = np.array([False, False, True, True])
        # Gain 1 bit; price (log2(3) + log2(3^2 - 2) - 2 * 1) / 4 = 0.598: the cut is accepted.
        assert informative_cuts(values, labels).tolist() == [3]
        # With 2 values: gain 1 bit; price (log2(1) + log2(7) - 2) / 2 = 0.404.
        assert informative_cuts(numbers([1, 2]), np.array([False, True])).tolist() == [2]
        # The best cut leaves 3 of 4 values: gain 0.311 bits; price (log2(3) + log2(7) - 2 + 2 * 0.918) / 4 = 1.057.
        assert not len(informative_cuts(values, np.array([False, True, False, True])))


class TestNumbers:
    """Which features are numbers."""

    def test_absence_is_0_if_the_feature_is_frequent(self) -> None:
        """Of two numbers, one is in half of the examples, and one in a twentieth."""
        generator = np.random.default_rng(4)
        drawn = generator.normal(5.0, 1.0, (500, 2)) * (generator.random((500, 2)) < [0.5, 0.05])
        cuts = fit_cuts(number_batch(drawn, np.where(generator.random(500) < 0.5, 1.0, -1.0)), mdl=False)
        dense = dict(zip(cuts.features.tolist(), cuts.dense.tolist(), strict=True))
        assert dense == {key_of("n0"): 1, key_of("n1"): 0}

    @pytest.mark.parametrize("mdl", [False, True])
    def test_some_features_are_not_cut(self, *, mdl: bool) -> None:
        """Those with one value, as categories have, and those with too few values."""
        drawn = np.zeros((200, 3))
        drawn[:, 0] = 1.0
        drawn[:FEW, 1] = np.arange(1, FEW + 1)
        drawn[:, 2] = np.arange(1, 201)
        cuts = fit_cuts(number_batch(drawn, np.where(np.arange(200) < 100, 1.0, -1.0)), mdl=mdl)
        assert cuts.features.tolist() == [key_of("n2")]
        if mdl:
            assert cuts.cuts.tolist() == [101.0]

    @pytest.mark.parametrize("discretise", ["quantile", "mdl"])
    def test_a_model_learns_intervals(self, discretise: str) -> None:
        """The label is positive where the number is in the middle, which no weight of its value can express."""
        generator = np.random.default_rng(5)
        drawn = generator.uniform(-2.0, 2.0, (4000, 2))
        batch = number_batch(drawn, np.where(np.abs(drawn[:, 0]) < 1.0, 1.0, -1.0))
        wrong = []
        for chosen in (discretise, "none"):
            learner = tuple_learner(discretise=chosen)
            learn_all(learner, batch)
            found = scores_of(learner, batch).predictions
            wrong.append(float(((found > 0.0) != (batch.labels > 0.0)).mean()))
        assert wrong[0] < 0.08
        assert wrong[1] > 0.3

    def test_values_of_an_interval_are_the_same_feature(self) -> None:
        """Beyond the outermost cuts, too; an absent number is in the interval of 0."""
        generator = np.random.default_rng(6)
        drawn = np.round(generator.uniform(-50.0, 50.0, (600, 1)))
        learner = tuple_learner(order=1)
        learn_all(learner, number_batch(drawn, np.where(drawn[:, 0] > 10.0, 1.0, -1.0)))
        probes = number_batch(np.array([[49.0], [50.0], [1e15], [0.25], [0.0]]), np.ones(5))
        found = scores_of(learner, probes).predictions
        assert found[0] == found[1] == found[2]
        assert found[3] == found[4]
        assert found[0] > 0.0 > found[3]

    def test_cuts_are_made_after_500_examples(self) -> None:
        """Of those that are learned; then the reservoir is empty."""
        generator = np.random.default_rng(7)
        drawn = generator.normal(size=(520, 1))
        labels = np.where(drawn[:, 0] > 0.0, 1.0, -1.0)
        labels[:10] = np.nan
        learner = tuple_learner()
        for row, kept in ((509, 499), (510, 0), (520, 0)):
            learner = tuple_learner()
            learn_all(learner, number_batch(drawn, labels).rows(0, row))
            assert len(learner.state.sums["reservoir_labels"]) == kept
            assert len(learner.state.sums["cuts_features"]) == int(kept == 0)

    def test_cuts_are_made_earlier_of_long_examples(self) -> None:
        """The reservoir holds 32,768 features, so that a message of a snapshot has room for it."""
        size = 1000
        names = [[f"x{at}" for at in range(size)] for _ in range(40)]
        values = np.random.default_rng(8).normal(size=(40, size)).astype(np.float32)
        batch = batch_of(names, values, np.where(values[:, 0] > 0.0, 1.0, -1.0), np.ones(40))
        learner = tuple_learner(order=1)
        learn_all(learner, batch.rows(0, 32))
        assert len(learner.state.sums["reservoir_keys"]) == 32_000
        learn_all(learner, batch.rows(32, 33))
        assert len(learner.state.sums["reservoir_keys"]) == 0
        assert len(learner.state.sums["cuts_features"]) == size

    def test_the_squared_loss_has_cuts_too(self) -> None:
        """With mdl, between labels above and below their median."""
        values = np.arange(1.0, 401.0)[:, None]
        cuts = fit_cuts(number_batch(values, np.where(values[:, 0] > 300.0, 50.0, values[:, 0] / 1000.0)), mdl=True)
        assert cuts.cuts.tolist() == [201.0]


def test_intervals_are_described_by_their_number_and_bounds() -> None:
    """[a, b), the outer ones unbounded; each feature of an example with numbers is one of them."""
    cuts = cuts_of({7: (numbers([-1.0, 2.5]), False, 7)})
    endings = ["\u2208(\u2212\u221e,\u22121)", "\u2208[\u22121,2.5)", "\u2208[2.5,\u221e)"]
    assert list(intervals_of(cuts).values()) == [Factor(7, ending) for ending in endings]
    values = np.random.default_rng(3).normal(size=(600, 1))
    learner = tuple_learner(order=1, discretise="quantile")
    batch = number_batch(values, (values[:, 0] > 0.3).astype(np.float64))
    for _ in range(3):
        learn_all(learner, batch)
    cut_at = {factor for term in learner.find(100).heaviest for factor in term.factors if factor.ending}
    assert cut_at
    assert {factor.key for factor in cut_at} <= set(batch.keys.tolist())
