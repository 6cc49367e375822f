"""What each default that has a setting is worth: all of them, and all but one, on sets of many kinds.

The sets are those that scikit-learn, River, and the demo carry, and files; of each the first examples, shuffled unless
their order is that of time, in one pass of six epochs. Each variant is compared with the default on the same sets, and
on sets that took no part in the choice of defaults. Labels are also turned over in the middle of sets of two labels or
of classes: how soon is the error what it was?
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from study.carried_sets import CarriedSet, carried_sets, flipped, held_out_sets, set_of_file, with_squared_loss
from study.experiments.experiment import Experiment, Inquiry, StudyFinding, TableCell
from study.runs.carried_pass import BEFORE, CarriedFigures, pass_over_carried
from study.runs.changed_constants import passes_with_constants

VARIANTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "numbers as they are": {"discretise": "none"},
        "drift ignored": {"drift": "ignore"},
        "any degree": {"max_degree": 250},
        "classes at the usual rate": {"learning_rate": 0.5},
    }
)
"""What is changed -> fields of `Options`."""
SETS = (
    "20news", "a9a", "abalone-binary", "abalone-reg", "adult", "cal-housing", "census", "covtype", "eeg-eye-state",
    "eeg-eye-state-std", "letter", "magic04", "mushroom", "poker", "shuttle", "titanic",
)  # fmt: skip
PARTS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "votes of all examples": {"learners.apple.kernels.admission:ALL_VOTE_BEFORE": 1 << 62},
        "few parents for few features": {"learners.apple.growth:FEWEST_NONZEROS": 0.0},
        "no early growth": {"learners.apple.growth:EARLY_GROWTH": 1 << 62},
        "one budget": {"learners.apple.growth:BUDGET_PER_FEATURE": 1e9},
        "no shrinkage": {"learners.apple.state.weights:SHRINKAGE": 1e-30},
    }
)
"""What is left out of the learner, though no setting does it -> constants of the package with other values."""
_SHOWN = ("error", "loss", "early", "late", "features", "microseconds")
_LEAST = 1e-4  # is added to both sides of a ratio, so that an error of 0 counts as one in ten thousand


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    files = {name: set_of_file(data_set.path, inquiry.rows) for name, data_set in inquiry.sets.items()}
    chosen_on = {**files, **dict(carried_sets(inquiry.rows))}
    held_out = dict(held_out_sets(inquiry.rows))
    two_labels = {name: with_squared_loss(each) for name, each in chosen_on.items() if each.loss == "logistic"}
    groups = {"chosen": chosen_on, "held-out": held_out, "squared": two_labels}
    titles = {
        "chosen": "the sets that defaults were chosen on",
        "held-out": "held-out sets",
        "squared": "sets of two labels, learned with the squared loss",
    }
    without = {part: _without(inquiry, part, groups, constants) for part, constants in PARTS.items()}
    for name, given in groups.items():
        of = titles[name]
        usual = _pass_over_all(inquiry, f"{name}: the default", given, {})
        yield _by_set(f"{name}-sets", f"The default on {of}", usual)
        found = {
            variant: _pass_over_all(inquiry, f"{name}: {variant}", given, changed)
            for variant, changed in VARIANTS.items()
        } | {part: figures[name] for part, figures in without.items()}
        yield _by_variant(f"{name}-variants", f"Each variant over the default, geometric means over {of}", found, usual)
    yield _flips(inquiry, {name: flipped(each) for name, each in {**chosen_on, **held_out}.items() if _can_flip(each)})


def _pass_over_all(
    inquiry: Inquiry, phase: str, given: Mapping[str, CarriedSet], changed: Mapping[str, Any]
) -> dict[str, CarriedFigures]:
    found = {}
    for done, (name, each) in enumerate(given.items()):
        inquiry.tell(phase, done, len(given))
        found[name] = pass_over_carried(each, changed)
    inquiry.tell(phase, len(given), len(given))
    return found


def _without(
    inquiry: Inquiry, part: str, groups: Mapping[str, Mapping[str, CarriedSet]], constants: Mapping[str, object]
) -> dict[str, dict[str, CarriedFigures]]:
    """Return the figures of each set of each group with these constants, all of them with the same kernels."""
    flat = {f"{group}\n{name}": each for group, given in groups.items() for name, each in given.items()}
    found: dict[str, dict[str, CarriedFigures]] = {group: {} for group in groups}
    for done, (place, figures) in enumerate(passes_with_constants(flat, constants)):
        inquiry.tell(part, done, len(flat))
        group, _, name = place.partition("\n")
        found[group][name] = figures
    inquiry.tell(part, len(flat), len(flat))
    return found


def _by_set(name: str, title: str, usual: Mapping[str, CarriedFigures]) -> StudyFinding:
    return StudyFinding(
        name,
        title,
        ("set", *(field.replace("_", " ") for field in _SHOWN)),
        tuple((label, *(getattr(figures, field) for field in _SHOWN)) for label, figures in usual.items()),
    )


def _by_variant(
    name: str, title: str, found: Mapping[str, Mapping[str, CarriedFigures]], usual: Mapping[str, CarriedFigures]
) -> StudyFinding:
    rows: list[tuple[TableCell, ...]] = [
        (variant, *(_mean_ratio(figures, usual, field) for field in _SHOWN)) for variant, figures in found.items()
    ]
    return StudyFinding(name, title, ("variant", *_SHOWN), tuple(rows))


def _mean_ratio(found: Mapping[str, CarriedFigures], usual: Mapping[str, CarriedFigures], field: str) -> float:
    """Return the geometric mean over the sets."""
    logs = [np.log((getattr(found[name], field) + _LEAST) / (getattr(usual[name], field) + _LEAST)) for name in usual]
    return float(np.exp(np.mean(logs)))


def _can_flip(given: CarriedSet) -> bool:
    return given.loss != "squared" and not given.flip and len(given.batch.labels) >= 2 * BEFORE


def _flips(inquiry: Inquiry, given: Mapping[str, CarriedSet]) -> StudyFinding:
    """Return how many examples after a flip the error is what it was, by the default and without restarts."""
    own = _pass_over_all(inquiry, "flips: the default", given, {})
    ignoring = _pass_over_all(inquiry, "flips: no restarts", given, {"drift": "ignore"})
    rows: list[tuple[TableCell, ...]] = [
        (name, _known(own[name].back), _known(ignoring[name].back), own[name].error, ignoring[name].error)
        for name in given
    ]
    return StudyFinding(
        "flips",
        "Examples after which the error is within a tenth of the earlier one, where all labels are turned over",
        ("set", "default", "no restarts", "error: default", "error: no restarts"),
        tuple(rows),
    )


def _known(back: float) -> float | None:
    return back if np.isfinite(back) else None


EXPERIMENT = Experiment(_run, SETS, ("river", "sklearn"))
