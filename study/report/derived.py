"""The paper's derived numbers, and verdicts on differences from several seeds."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

TEST_OVER_TRAIN = 0.25  # 20 parts over 80
_NORMAL = 1.959963985  # 97.5 % of a normal distribution are below
# The same of Student's distribution with 1, 2, ... degrees of freedom; beyond, a series is exact to 1e-3.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)

Claim = Literal["better", "worse", "equal", "within noise", "one seed"]


def relative_error(error: float | None, baselines: Iterable[float | None]) -> float | None:
    """Return where an error lies between the best of the baselines, 0, and the worst, 1.

    None if the baselines are all equal, or anything is missing.
    """
    known = [each for each in baselines if each is not None]
    if error is None or not known or min(known) == max(known):
        return None
    return (error - min(known)) / (max(known) - min(known))


def ratio(value: float | None, reference: float | None) -> float | None:
    """Return the quotient; None if one number is missing, or the reference is 0."""
    return None if value is None or not reference else value / reference


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean of all seeds; None if one is missing: means over different seeds can't be compared."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None


class GeometricMean(NamedTuple):
    """The geometric mean of ratios, and what lies one standard error of their logarithms below and above it.

    `low` and `high` are None where there is a single ratio.

    left_out  ratios that have no logarithm: 0, or a reference of 0
    """

    mean: float
    low: float | None
    high: float | None
    sets: int
    left_out: int


def geometric_mean(pairs: Iterable[tuple[float | None, float | None]]) -> GeometricMean | None:
    """Return the mean of value over reference; pairs with a missing one do not count. None if there is no ratio."""
    known = [(value, reference) for value, reference in pairs if value is not None and reference is not None]
    logarithms = [math.log(value / reference) for value, reference in known if value > 0 and reference > 0]
    if not logarithms:
        return None
    mean, count = statistics.fmean(logarithms), len(logarithms)
    low = high = None
    if count > 1:
        error = statistics.stdev(logarithms) / math.sqrt(count)
        low, high = math.exp(mean - error), math.exp(mean + error)
    return GeometricMean(math.exp(mean), low, high, count, len(known) - count)


class PairedDifference(NamedTuple):
    """Mean of an error less another's, on the same splits, with its standard error (None of one seed)."""

    mean: float
    standard_error: float | None
    verdict: Claim


def paired_difference(errors: Sequence[float | None], others: Sequence[float | None]) -> PairedDifference | None:
    """Return the difference of `errors` and `others`, seed by seed, and whether it is better or worse than chance.

    None if a seed is missing. The splits of one set share examples, so their differences vary less than those of fresh
    data would: the variance of the mean is s² (1/n + test/train), not s²/n (Nadeau and Bengio 2003). The verdict is
    better or worse if 0 is outside of the 95 % interval by Student's distribution.
    """
    if not errors or len(errors) != len(others):
        return None
    differences = [
        error - other for error, other in zip(errors, others, strict=True) if error is not None and other is not None
    ]
    if len(differences) != len(errors):
        return None
    mean, count = statistics.fmean(differences), len(differences)
    if count == 1:
        return PairedDifference(mean, None, "one seed")
    error = math.sqrt(statistics.variance(differences) * (1 / count + TEST_OVER_TRAIN))
    if mean == error == 0.0:
        return PairedDifference(mean, error, "equal")
    if abs(mean) <= student(count - 1) * error:
        return PairedDifference(mean, error, "within noise")
    return PairedDifference(mean, error, "better" if mean < 0 else "worse")


def student(degrees: int) -> float:
    """Return the number below which 97.5 % of Student's distribution with so many degrees of freedom lie."""
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    z = _NORMAL
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median and upper quartile, linear between values; ValueError if there is no value."""
    if not values:
        raise ValueError("expected at least one value, found none")
    if len(values) == 1:
        return (values[0],) * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high
