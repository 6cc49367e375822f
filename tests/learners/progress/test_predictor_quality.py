"""Loss, AUC and calibration of predictors: by their definitions, however the stream is cut, in bounded memory."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.oracles.ranking import Predicted, auc, calibration_error

from stream_apple.core.batch import Batch
from stream_apple.learners.loss_functions import places_of
from stream_apple.learners.losses import LOGISTIC, SQUARED
from stream_apple.learners.progress.predictor_quality import (
    CALIBRATION_BINS,
    RECENT,
    PredictorQuality,
    QualityReport,
    Span,
)
from stream_apple.learners.scores import Scores
from stream_apple.offline.binary_measures import binary_measures

SPANS: tuple[Span, ...] = ("whole", "epoch", "last_epoch", "recent")
# Each in a bin of its own, so that the histogram's AUC is exact.
APART = [
    0.0,
    2.0**-30,
    2.0**-24,
    2.0**-13,
    3 * 2.0**-11,
    0.015625,
    *(n / 64 for n in range(8, 57)),
    0.999,
    1 - 2.0**-20,
    1.0,
]
YES, NO = True, False

Floats = NDArray[np.float64]


def numbers(items: Sequence[float]) -> Floats:
    """As the kernel takes them."""
    return np.array(items, np.float64)


def add(quality: PredictorQuality, labels: Floats, weights: Floats, scores: tuple[Floats, ...], *rows: int) -> None:
    """As the progressive loss does."""
    size = len(labels)
    columns: dict[str, Any] = dict(zip(("predictions", "linear", "expanded"), scores, strict=False))
    batch = Batch(np.zeros(size + 1, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.float32), labels, weights)
    call, arguments = quality.kernel_call(batch, Scores.empty(size)._replace(**columns), *rows)
    call(*arguments)


def quality_of(examples: Sequence[Predicted], label: Callable[[bool], float] = float) -> PredictorQuality:
    """Of one predictor with squared loss; the place is the score."""
    quality = PredictorQuality(loss=SQUARED, predictors=1)
    labels, weights = numbers([label(e.positive) for e in examples]), numbers([e.weight for e in examples])
    add(quality, labels, weights, (numbers([e.place for e in examples]),), 0, len(examples))
    return quality


def rare(size: int, *, logistic: bool, seed: int = 1) -> tuple[Floats, Floats, tuple[Floats, ...]]:
    """Labels of which one in a thousand is 1, weights, and scores of three predictors: calibrated, sure, and noisy."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(-9.0, 2.0, size)
    labels = (rng.random(size) < 1.0 / (1.0 + np.exp(-odds))).astype(np.float64)
    each = (odds, 1.5 * odds, odds + rng.normal(size=size))
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], size)
    if logistic:
        return 2.0 * labels - 1.0, weights, each
    return labels, weights, tuple(1.0 / (1.0 + np.exp(-scores)) for scores in each)


def state(quality: PredictorQuality) -> bytes:
    """Every bit of it."""
    return b"".join(array.tobytes() for array in quality.arrays().values())


def is_unknown(report: QualityReport) -> bool:
    """Nothing but the loss is known."""
    return all(math.isnan(number) for number in report[1:6]) and report.reliability == ()


@given(
    st.lists(
        st.builds(Predicted, st.booleans(), st.integers(1, 5).map(float), st.sampled_from(APART)), min_size=2
    ).filter(lambda examples: len({e.positive for e in examples}) == 2)
)
def test_all_is_by_definition(examples: list[Predicted]) -> None:
    """Where no two different scores share a bin, all numbers are those of the definitions, pair by pair."""
    report = quality_of(examples).report("whole", 0)
    positives = sum(e.weight for e in examples if e.positive)
    total = sum(e.weight for e in examples)
    assert report.loss == pytest.approx(sum(e.weight * (e.place - e.positive) ** 2 for e in examples) / total)
    assert report.auc == pytest.approx(auc(examples), abs=1e-12)
    assert report.calibration_error == pytest.approx(calibration_error(examples), abs=1e-12)
    assert report.calibration_ratio == pytest.approx(sum(e.weight * e.place for e in examples) / positives)
    assert (report.positives, report.negatives) == (positives, total - positives)
    assert sum(point.weight for point in report.reliability) == total
    assert sum(point.weight * point.share for point in report.reliability) == pytest.approx(positives)
    assert len(report.reliability) <= CALIBRATION_BINS
    assert [p.prediction for p in report.reliability] == sorted(p.prediction for p in report.reliability)


@given(st.lists(st.builds(Predicted, st.booleans(), st.just(1.0), st.floats(0, 1)), min_size=2, max_size=40))
def test_calibration_is_exact_for_any_scores(examples: list[Predicted]) -> None:
    """Its bins are unions of the histogram's, and predictions are summed as they are."""
    examples += [Predicted(positive, 1.0, 0.3) for positive in (False, True)]
    examples.sort(key=lambda e: e.positive)  # 0 comes first
    report = quality_of(examples).report("whole", 0)
    assert report.calibration_error == pytest.approx(calibration_error(examples), abs=1e-12)


@pytest.mark.parametrize("logistic", [False, True])
def test_auc_of_a_rare_label_is_right_to_a_thousandth(logistic: bool) -> None:  # noqa: FBT001
    """A million examples, a thousand of which are positive."""
    labels, weights, scores = rare(1_000_000, logistic=logistic)
    quality = PredictorQuality(loss=LOGISTIC if logistic else SQUARED, predictors=3)
    add(quality, labels, weights, scores, 0, len(labels))
    pair = np.unique(labels)
    for which, each in enumerate(scores):
        report = quality.report("whole", which)
        places = places_of(LOGISTIC if logistic else SQUARED, each, pair)
        exact = binary_measures(labels, weights, places, 1.0)
        assert report.auc == pytest.approx(exact.auc, abs=1e-3)
        assert report.calibration_error == pytest.approx(exact.calibration_error, rel=1e-9)
    assert 500 < quality.report("whole", 0).positives < 2000
    assert quality.report("whole", 0).calibration_ratio == pytest.approx(1.0, abs=0.1)
    assert quality.report("whole", 1).calibration_ratio < 0.5


@pytest.mark.parametrize("logistic", [False, True])
def test_no_result_depends_on_where_the_stream_is_cut(logistic: bool) -> None:  # noqa: FBT001
    """To the bit; recent sums are divided twice on the way."""
    labels, weights, scores = rare(1_000_000, logistic=logistic)
    cuts = [0, *np.sort(np.random.default_rng(2).integers(0, 1_000_000, 500)).tolist(), 1_000_000]
    whole, parts = (PredictorQuality(loss=LOGISTIC if logistic else SQUARED, predictors=3) for _ in range(2))
    add(whole, labels, weights, scores, 0, 1_000_000)
    for start, stop in pairwise(cuts):
        add(parts, labels, weights, scores, start, stop)
    assert state(whole) == state(parts)


def test_a_copy_of_the_arrays_has_the_same_future() -> None:
    """Wherever it is taken, also before the second label has come."""
    labels, weights, scores = rare(3000, logistic=False)
    labels[1500] = weights[1500] = 1.0
    for at in (0, 1, 1000, 2000):
        old, new = (PredictorQuality(loss=SQUARED, predictors=3) for _ in range(2))
        add(old, labels, weights, scores, 0, at)
        old.end_epoch()
        for name, array in new.arrays().items():
            assert array.ndim == 1
            array[:] = old.arrays()[name]
        for quality in (old, new):
            add(quality, labels, weights, scores, at, 3000)
        assert state(old) == state(new)
        assert new.report("whole", 0).positives > 0.0


def test_spans_are_of_the_examples_that_they_name() -> None:
    """Epochs are apart, and in recent sums an example weighs less with each labelled one after it."""
    rng = np.random.default_rng(3)
    size, ends = 900, [0, 300, 500, 900]
    places, weights = rng.choice(APART, size), rng.integers(0, 3, size).astype(np.float64)
    labels = np.where(rng.random(size) < 0.1, np.nan, (rng.random(size) < places).astype(np.float64))
    quality = PredictorQuality(loss=SQUARED, predictors=1)
    for start, stop in pairwise(ends):
        if start:
            quality.end_epoch()
        add(quality, labels, weights, (places,), start, stop)
    later = np.cumsum(~np.isnan(labels)[::-1])[::-1] - 1
    decayed = weights * (1.0 - 1.0 / RECENT) ** later
    for span, (start, stop), importance in (
        ("whole", (0, 900), weights), ("epoch", (500, 900), weights),
        ("last_epoch", (300, 500), weights), ("recent", (0, 900), decayed),
    ):  # fmt: skip
        rows = [r for r in range(start, stop) if labels[r] in {0.0, 1.0} and weights[r] > 0]
        examples = [Predicted(bool(labels[r]), float(importance[r]), float(places[r])) for r in rows]
        report = quality.report(span, 0)  # type: ignore[arg-type]
        assert report.auc == pytest.approx(auc(examples), abs=1e-9)
        assert report.calibration_error == pytest.approx(calibration_error(examples), abs=1e-9)
        assert report.positives == pytest.approx(sum(e.weight for e in examples if e.positive), rel=1e-9)


def test_recent_sums_stay_right_for_long() -> None:
    """They forget what was there before, however many examples come."""
    quality = PredictorQuality(loss=SQUARED, predictors=1)
    places = np.tile([0.25, 0.75], 500_000)
    right, wrong = np.tile([0.0, 1.0], 500_000), np.tile([1.0, 0.0], 500_000)
    for labels, expected in ((right, 1.0), (wrong, 0.0), (right, 1.0)):
        add(quality, labels, np.ones(1_000_000), (places,), 0, 1_000_000)
        report = quality.report("recent", 0)
        assert report.auc == pytest.approx(expected, abs=1e-12)
        assert (report.positives, report.negatives) == pytest.approx((RECENT / 2, RECENT / 2), rel=1e-3)
    assert quality.report("whole", 0).auc == pytest.approx(2 / 3)


def test_importance_is_repetition() -> None:
    """An example of weight 3 counts as three examples, and one of weight 0 as none."""
    labels, _, scores = rare(4000, logistic=True)
    labels[::50] = 1.0
    times = np.random.default_rng(4).integers(0, 4, 4000)
    weighted, repeated = (PredictorQuality(loss=LOGISTIC, predictors=3) for _ in range(2))
    add(weighted, labels, times.astype(np.float64), scores, 0, 4000)
    again = tuple(np.repeat(each, times) for each in scores)
    add(repeated, np.repeat(labels, times), np.ones(times.sum()), again, 0, int(times.sum()))
    one, other = weighted.report("whole", 1), repeated.report("whole", 1)
    assert one.auc == other.auc
    assert one[:6] == pytest.approx(other[:6], rel=1e-9)


class TestLabels:
    """Which streams have an AUC at all."""

    @pytest.mark.parametrize("logistic", [False, True])
    @pytest.mark.parametrize("label", [math.nan, -1.0, 1.0])
    def test_one_label_is_not_enough(self, label: float, logistic: bool) -> None:  # noqa: FBT001
        """Without labels not even a loss is known."""
        quality = PredictorQuality(loss=LOGISTIC if logistic else SQUARED, predictors=1)
        add(quality, np.full(9, label), np.ones(9), (np.full(9, 0.5),), 0, 9)
        for span in SPANS:
            report = quality.report(span, 0)
            assert is_unknown(report)
            assert math.isnan(report.loss) == (math.isnan(label) or span == "last_epoch")

    def test_a_span_with_one_label_has_no_auc(self) -> None:
        """Its predictions can be too high all the same."""
        quality = quality_of([Predicted(YES, 1.0, 1.0), Predicted(NO, 1.0, 0.0)])
        quality.end_epoch()
        assert is_unknown(quality.report("epoch", 0)._replace(positives=math.nan, negatives=math.nan))
        add(quality, np.zeros(4), np.ones(4), (np.full(4, 0.25),), 0, 4)
        report = quality.report("epoch", 0)
        assert math.isnan(report.auc)
        assert math.isnan(report.calibration_ratio)
        assert report.calibration_error == 0.25
        assert (report.positives, report.negatives) == (0.0, 4.0)

    def test_a_third_label_ends_it_for_ever(self) -> None:
        """The loss goes on; a label of weight zero is none."""
        quality = quality_of([Predicted(YES, 1.0, 1.0), Predicted(NO, 1.0, 0.0)])
        add(quality, np.full(1, 2.0), np.zeros(1), (np.zeros(1),), 0, 1)
        assert quality.report("whole", 0).auc == 1.0
        add(quality, np.full(1, 2.0), np.ones(1), (np.zeros(1),), 0, 1)
        assert is_unknown(quality.report("whole", 0))
        add(quality, np.array([0.0, 1.0]), np.ones(2), (np.array([0.5, 0.5]),), 0, 2)
        for span in ("whole", "epoch", "recent"):
            assert is_unknown(quality.report(span, 0))
        assert quality.report("whole", 0).loss == (4.0 + 0.5) / 5

    @pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 2.0), (-2.0, -1.0), (0.0, 5.0)])
    @pytest.mark.parametrize("first", [0, 1])
    def test_scores_before_the_second_label_count_too(self, low: float, high: float, first: int) -> None:
        """They lie between 0 and the label, as the learner clips them; their places follow when both are known."""
        rng = np.random.default_rng(5)
        labels = rng.choice([low, high], 6000)
        labels[:3000] = (low, high)[first]
        seen = (min(0.0, labels[0]), max(0.0, labels[0]))
        truth = rng.normal(labels, high - low)
        scores = np.clip(truth, min(low, 0.0), max(high, 0.0))
        scores[:3000] = np.clip(truth[:3000], *seen)
        quality = PredictorQuality(loss=SQUARED, predictors=1)
        add(quality, labels, np.ones(6000), (scores,), 0, 6000)
        exact = binary_measures(labels, np.ones(6000), places_of(SQUARED, scores, labels), high)
        report = quality.report("whole", 0)
        assert report.positives == (labels == high).sum()
        assert report.auc == pytest.approx(exact.auc, abs=2e-3)
        assert report.calibration_error == pytest.approx(exact.calibration_error, abs=2e-3)


def test_extreme_scores_have_bins_of_their_own() -> None:
    """Scores at the bounds, and log-odds at which a probability is 1 in floating point."""
    squared = quality_of([Predicted(NO, 1.0, 0.0), Predicted(YES, 1.0, 2.0**-24), Predicted(YES, 1.0, 1.0)])
    assert squared.report("whole", 0).auc == 1.0
    logistic = PredictorQuality(loss=LOGISTIC, predictors=1)
    labels, scores = np.array([-1.0, -1.0, 1.0, 1.0]), np.array([-50.0, -9.0, 9.0, 50.0])
    add(logistic, labels, np.ones(4), (scores,), 0, 4)
    report = logistic.report("whole", 0)
    assert report.auc == 1.0
    assert report.loss == pytest.approx(math.log1p(math.exp(-9.0)) / 2)
    assert report.calibration_error < 1e-4


def test_the_state_is_small() -> None:
    """It is in every snapshot."""
    arrays = PredictorQuality(loss=SQUARED, predictors=3).arrays().values()
    assert sum(array.nbytes for array in arrays) < 1 << 16


@pytest.mark.parametrize("ended", ["weights", "losses"])
def test_half_an_ended_epoch_is_no_error(ended: str) -> None:
    """Another thread ends it while it is reported: some of its sums are nothing already. What is not known is NaN."""
    quality = quality_of([Predicted(NO, 1.0, 0.2), Predicted(YES, 2.0, 0.7)])
    quality.arrays()[f"quality_{ended}"][:] = 0
    assert math.isnan(quality.report("epoch", 0).calibration_error)
    assert math.isnan(quality.report("epoch", 0).loss) == (ended == "losses")
