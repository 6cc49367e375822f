"""The made-up clicks: the same for a seed, with the planted structure, which each method finds as far as it can."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from stream_apple.config.duration import DAY
from stream_apple.core.batch import Batch, Limits
from stream_apple.demo import clicks as planted
from stream_apple.demo.clicks import FIELDS, clicks, impressions
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Method, Options
from stream_apple.learners.scores import Scores
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import encode_example

START_MS = 20_000 * DAY
DAYS = 8
SIZE = 40_000


@cache
def decoded_clicks() -> tuple[Batch, list[int]]:
    """Eight days of clicks, and where each of them begins."""
    examples = list(clicks(SIZE, 3, START_MS, DAYS * DAY))
    decoded = Decoder(Limits(100, 10_000, 1e6, -1e9, 1e9, binary=True)).decode([encode_example(e) for e in examples])
    assert not decoded.reasons.any()
    days = np.array([example.timestamp_ms for example in examples]) // DAY
    return decoded.batch, [0, *(np.flatnonzero(np.diff(days)) + 1).tolist()]


@cache
def progressive_losses(method: Method, *, mergeable: bool | None = None) -> tuple[float, float]:
    """Mean loss of the method and of the linear predictor alongside, over one pass with an epoch a day."""
    batch, days = decoded_clicks()
    learner, scores = Learner(Options(method=method, loss="logistic", mergeable=mergeable)), Scores.empty(SIZE)
    for start, stop in pairwise([*days, SIZE]):
        if start:
            learner.end_epoch()
        learner.learn(batch, start, stop, scores)
    return learner.progress.report("whole").loss, learner.progress.report("whole").linear_loss


class TestStream:
    """What is sent."""

    def test_is_the_same_for_a_seed(self) -> None:
        """The seed alone decides; another seed gives other clicks."""
        assert list(clicks(5000, 1, START_MS, DAY)) == list(clicks(5000, 1, START_MS, DAY))
        assert list(clicks(5000, 1, START_MS, DAY)) != list(clicks(5000, 2, START_MS, DAY))

    @pytest.mark.parametrize("count", [1, 999, 10_000])
    def test_is_spread_evenly_over_the_time(self, count: int) -> None:
        """Timestamps begin at the start, never go back, stay inside, and no gap is longer than its share."""
        times = [example.timestamp_ms for example in clicks(count, 1, START_MS, DAY)]
        assert len(times) == count
        assert times[0] == START_MS
        gaps = np.diff([*map(int, times), START_MS + DAY])  # type: ignore[arg-type]
        assert (gaps >= 0).all()
        assert gaps.max() <= DAY // count + 1

    def test_has_one_feature_of_each_field(self) -> None:
        """Every example names a known value of every field, and every value occurs."""
        known = [{f"{field}={value}" for value in values} for field, values in FIELDS.items()]
        seen: set[str] = set()
        for example in clicks(3000, 1, START_MS, 7 * DAY):
            assert example.label in {0.0, 1.0}
            assert [len(values & set(example.features)) for values in known] == [1] * len(known)
            assert len(example.features) == len(known)
            seen.update(example.features)
        assert seen == set().union(*known)

    def test_shows_local_hours_and_weekdays(self) -> None:
        """At Friday noon in UTC it is 13 o'clock in Germany and Friday 21 o'clock in Japan."""
        friday_noon = 1 * DAY + DAY // 2  # 2 January 1970
        found = impressions(np.full(1000, friday_noon), np.random.default_rng(1)).choices
        for country, hour in (("de", 13), ("jp", 21), ("us", 6)):
            there = found["country"] == FIELDS["country"].index(country)
            assert set(found["hour"][there]) == {hour}
            assert set(found["weekday"][there]) == {FIELDS["weekday"].index("fri")}


class TestPlantedStructure:
    """What there is to learn."""

    def test_pairs_leave_nothing_to_their_features_alone(self) -> None:
        """Each pair effect has mean 0 over either of its features, so that a linear model sees none of it."""
        np.testing.assert_allclose(planted._DEVICE_HOUR.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(planted._DEVICE_HOUR.mean(axis=1), 0, atol=1e-12)
        np.testing.assert_allclose(planted._COUNTRY_AD.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(planted._COUNTRY_AD.mean(axis=1), 0, atol=1e-12)
        assert sum(planted._TASTE_FOR_FITTING) == 0

    def test_clicks_follow_the_log_odds(self) -> None:
        """Within each band of log-odds, the share of clicks is the mean probability, to five standard errors."""
        found = impressions(np.full(200_000, START_MS), np.random.default_rng(5))
        chance = 1 / (1 + np.exp(-found.log_odds))
        for band in np.unique(np.round(found.log_odds)):
            rows = np.round(found.log_odds) == band
            error = np.sqrt((chance[rows] * (1 - chance[rows])).sum()) / rows.sum()
            assert abs(found.clicked[rows].mean() - chance[rows].mean()) < 5 * error

    def test_each_degree_explains_more(self) -> None:
        """Pairs beat single features, triples beat pairs, apple beats linear; none beats the truth."""
        losses = {method: progressive_losses(method)[0] for method in ("linear", "apple", "quadratic", "cubic")}
        times = START_MS + np.arange(SIZE) * DAYS * DAY // SIZE
        odds = impressions(times, np.random.default_rng(3)).log_odds
        entropy = float(np.mean(np.logaddexp(0, odds) - odds / (1 + np.exp(-odds))))
        assert losses["linear"] - 0.1 > losses["quadratic"]
        assert losses["quadratic"] - 0.02 > losses["cubic"]
        assert losses["cubic"] > entropy
        assert losses["linear"] - 0.05 > losses["apple"]

    def test_the_linear_loss_alongside_is_that_of_a_linear_model(self) -> None:
        """What the demo draws as linear is what a worker with method linear would have; nearly so if it rehearses."""
        linear, _ = progressive_losses("linear")
        assert progressive_losses("apple", mergeable=True)[1] == pytest.approx(linear, abs=1e-12)
        assert progressive_losses("apple")[1] == pytest.approx(linear, rel=0.005)
