"""Derived numbers, against ones worked out by hand."""

import math

import pytest

from study.report.derived import (
    PairedDifference,
    geometric_mean,
    mean_of,
    paired_difference,
    quartiles,
    ratio,
    relative_error,
    student,
)


def test_relative_error() -> None:
    """The paper's definition: (error - least) / (greatest - least) of the baselines."""
    assert relative_error(0.25, [0.2, 0.4, 0.3]) == pytest.approx(0.25)
    assert relative_error(0.1, [0.2, 0.4, 0.3]) == pytest.approx(-0.5)
    assert relative_error(0.5, [0.2, 0.4, None]) == pytest.approx(1.5)


def test_relative_error_is_undefined_without_a_span() -> None:
    """Where all baselines are equal, or there are none, or the method itself failed."""
    assert relative_error(0.1, [0.2, 0.2, 0.2]) is None
    assert relative_error(0.1, [None, None]) is None
    assert relative_error(None, [0.2, 0.4]) is None


def test_ratio_and_mean() -> None:
    """None is not counted as a number, nor is a reference of 0."""
    assert ratio(3.0, 2.0) == 1.5
    assert ratio(None, 2.0) is ratio(3.0, None) is ratio(3.0, 0.0) is None
    assert mean_of([0.1, 0.3]) == pytest.approx(0.2)
    assert mean_of([0.1, None]) is mean_of([]) is None


def test_geometric_mean() -> None:
    """Of 1/2 and 2 it is 1, with sqrt(2) · ln 2 / sqrt(2) to each side; zeros and missing ones are left out."""
    found = geometric_mean([(1.0, 2.0), (2.0, 1.0), (0.0, 1.0), (None, 1.0)])
    assert found is not None
    assert found.mean == pytest.approx(1.0)
    assert (found.low, found.high) == pytest.approx((math.exp(-math.log(2)), math.exp(math.log(2))))
    assert (found.sets, found.left_out) == (2, 1)
    assert geometric_mean([(0.0, 1.0)]) is None
    single = geometric_mean([(3.0, 2.0)])
    assert single is not None
    assert single.mean == pytest.approx(1.5)
    assert single.low is single.high is None


def test_paired_difference() -> None:
    """Differences -.1, 0, .1: variance .01, so the corrected error of their mean is sqrt(.01 (1/3 + 1/4)) = .0764."""
    found = paired_difference([0.1, 0.2, 0.3], [0.2, 0.2, 0.2])
    assert found is not None
    assert found.mean == pytest.approx(0.0, abs=1e-15)
    assert found.standard_error == pytest.approx(0.0763763, rel=1e-5)
    assert found.verdict == "within noise"


@pytest.mark.parametrize(
    ("mean", "verdict"), [(-0.34, "better"), (-0.32, "within noise"), (0.32, "within noise"), (0.34, "worse")]
)
def test_no_claim_inside_the_noise(mean: float, verdict: str) -> None:
    """With the spread above and three seeds, the limit is 4.303 · .0764 = .329."""
    others = [0.5, 0.5, 0.5]
    errors = [0.5 + mean + delta for delta in (-0.1, 0.0, 0.1)]
    found = paired_difference(errors, others)
    assert found is not None
    assert found.verdict == verdict


def test_differences_without_spread() -> None:
    """Equal is equal; one seed allows no claim; missing seeds allow no number."""
    assert paired_difference([0.1, 0.2], [0.1, 0.2]) == PairedDifference(0.0, 0.0, "equal")
    found = paired_difference([0.1], [0.3])
    assert found is not None
    assert (found.standard_error, found.verdict) == (None, "one seed")
    assert paired_difference([0.1, None], [0.1, 0.2]) is None
    assert paired_difference([], []) is paired_difference([0.1], [0.1, 0.2]) is None


@pytest.mark.parametrize(("degrees", "value"), [(1, 12.706), (2, 4.303), (9, 2.262), (10, 2.228), (30, 2.042)])
def test_student(degrees: int, value: float) -> None:
    """As tables have it."""
    assert student(degrees) == pytest.approx(value, abs=1e-3)


def test_quartiles() -> None:
    """Linear between values; one value is all three."""
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 3.0, 4.0)
    assert quartiles([7.0]) == (7.0, 7.0, 7.0)
    with pytest.raises(ValueError, match="at least one"):
        quartiles([])
