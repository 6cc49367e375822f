"""The methods that a study compares, a line each: to add one is to add a line."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Literal, NamedTuple

BASELINES = ("linear", "quadratic", "cubic")
"""Relative errors are measured between the best and the worst of these."""

Proposal = Literal["ssm", "weight"]
"""The ranking by which a picky method proposes the monomials whose products it tests."""

_NONE: Mapping[str, object] = MappingProxyType({})


class StudyMethod(NamedTuple):
    """One method.

    overrides  fields of `Options` that make it this method
    arguments  of Vowpal Wabbit, if that learns; else None
    proposal   the ranking of proposals, if products are tested before they become features
    grid       whether it is run for each alpha
    grows      whether it matters when epochs end
    bits       of the table, 2^bits slots, unless the study sets other bits
    default    whether it is run if no methods are named
    """

    overrides: Mapping[str, object] = _NONE
    arguments: tuple[str, ...] | None = None
    proposal: Proposal | None = None
    grid: bool = False
    grows: bool = False
    bits: int = 18
    default: bool = True

    @property
    def is_vowpal(self) -> bool:
        """Return whether Vowpal Wabbit runs this method."""
        return self.arguments is not None


METHODS: dict[str, StudyMethod] = {
    "linear": StudyMethod({"method": "linear"}),
    "quadratic": StudyMethod({"method": "quadratic"}),
    "cubic": StudyMethod({"method": "cubic"}, bits=24),
    # Our product's method, a mixture; then the paper's, by weight, by squared residuals, and with the fall-back rule.
    "apple": StudyMethod({"method": "apple"}, grows=True),
    "apple-plain": StudyMethod({"method": "apple", "mixture": False}, grid=True, grows=True),
    "ssm": StudyMethod({"method": "apple", "mixture": False, "selection": "ssm"}, grid=True, grows=True),
    "apple-fallback": StudyMethod(
        {"method": "apple", "mixture": False, "fallback": True}, grid=True, grows=True, default=False
    ),
    # Each product is tested before it is a feature; to the learner, products are then features like any other.
    "picky-ssm": StudyMethod({"method": "linear"}, proposal="ssm", grid=True, grows=True, default=False),
    "picky-weight": StudyMethod({"method": "linear"}, proposal="weight", grid=True, grows=True, default=False),
    "vw-linear": StudyMethod(arguments=()),
    "vw-quadratic": StudyMethod(arguments=("-q", "::")),
    "vw-cubic": StudyMethod(arguments=("-q", "::", "--cubic", ":::"), bits=24),
    # The protocol's: epochs of equal length, whose number is known beforehand.
    "vw-stage-poly": StudyMethod(
        # An exponent of 0, that is s^0, would mean one parent an epoch.
        arguments=("--stage_poly", "--sched_exponent", "1", "--batch_sz_no_doubling"),
        grows=True,
    ),
    # Vowpal Wabbit's own: it grows after 1,000, 2,000, 4,000 ... examples, with s^1 parents each time.
    "vw-stage-poly-default": StudyMethod(arguments=("--stage_poly",), default=False),
    "vw-stage-poly-early": StudyMethod(arguments=("--stage_poly", "--batch_sz", "100"), default=False),
    "vw-stage-poly-often": StudyMethod(
        arguments=("--stage_poly", "--batch_sz", "1000", "--batch_sz_no_doubling"), default=False
    ),
    "vw-stage-poly-few": StudyMethod(arguments=("--stage_poly", "--sched_exponent", "0.5"), default=False),
    "vw-coin": StudyMethod(arguments=("--coin",), default=False),
    "vw-coin-quadratic": StudyMethod(arguments=("--coin", "-q", "::"), default=False),
}
"""Name -> what it is. Those with a grid also give `<name>-best` and `<name>-chosen`, which are no runs of their own."""

VOWPAL_SETTINGS = "vw-settings"
"""The name that stands for all of Vowpal Wabbit's settings that somebody might choose, where methods are named."""
STAGE_POLY_CHOICES = tuple(name for name in METHODS if name.startswith("vw-stage-poly"))
VOWPAL_CHOICES = ("vw-linear", "vw-quadratic", *STAGE_POLY_CHOICES, "vw-coin", "vw-coin-quadratic")
"""The best of these on each set, in hindsight, is what a user of Vowpal Wabbit could have had at best."""


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, such as `vowpalwabbit`; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
