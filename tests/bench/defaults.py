"""What each default of a mixture does: all of them, and all but one, on sets of many kinds.

    python tests/bench/defaults.py [--squared] [--flipped] [--rows N] [--held-out] [--only VARIANT] [FILE ...]

The sets are those that ship with scikit-learn and River, streams that River makes, the clicks of the demo, and FILES
in svmlight (two labels, or amounts); of each the first N examples (8,000), shuffled if no time is in their order, once
through, in six epochs, with no setting but the loss; with --squared two labels are 0 and 1, and learned with the
squared loss. *Flipped* sets have all labels turned over in their middle; of classes, each becomes the next. For each
variant it prints geometric means over the sets, of what it makes in place of the default's 1: progressive error (of
amounts: squared loss), progressive loss, error of the first 500, loss of the last fifth, features, and processor time
of an example. Above them stands each set by the default, and by the first defaults, or the only VARIANT, with the
examples after a flip until the error of 250 is within a tenth of what it was before. With --flipped it prints these
alone, of every set of two labels or of classes that has 2,000 examples or more, by the default and by one that ignores
drift. With --held-out the sets are those of `held_out.py`, on which no default was chosen.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import held_out
import numpy as np
import river.datasets
import xxhash
from numpy.typing import NDArray
from report import figure, header
from river.datasets import synth
from sklearn import datasets as shipped

from stream_apple.config.duration import DAY
from stream_apple.core.batch import Batch, Limits
from stream_apple.demo.clicks import clicks
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Loss, Options
from stream_apple.learners.scores import Scores
from stream_apple.offline.dataset import read_batch

ROWS, EPOCHS, FLIPPED, BEFORE = 8_000, 6, 250, 1_000
DAYS = 6  # of the clicks
LIMITS = Limits(65_535, 1 << 30, 1e6, -1e12, 1e12, binary=False)
EARLY = 500  # examples, whose error is told apart
FIRST = {
    "discretise": "none", "early_growth": 0, "rehearsal": "off", "label_units": 0, "drift": "ignore", "max_degree": 250,
    "budget_per_feature": 0.0, "votes": "all", "shrinkage": 0.0, "stack_loss": "plain",
    "learning_rate": 0.5,
}  # fmt: skip
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "first defaults": FIRST,
    "numbers as they are": {"discretise": "none"},
    "intervals": {"discretise": "auto"},
    "centred when cut": {"discretise": "auto", "centre": 0},
    "no early growth": {"early_growth": 0},
    "no rehearsal": {"rehearsal": "off"},
    "labels as they are": {"label_units": 0},
    "drift ignored": {"drift": "ignore"},
    "any degree": {"max_degree": 250},
    "no shrinkage": {"shrinkage": 0.0},
    "plain loss of the stack, none of classes": {"stack_loss": "plain"},
    "one budget": {"product_budget": 500},
    "classes at the usual rate": {"learning_rate": 0.5},
}


class Set(NamedTuple):
    """Examples, how they are learned, and where all labels turn over, if they do."""

    loss: Loss
    classes: int
    batch: Batch
    flip: int = 0


class Measured(NamedTuple):
    """Of one pass. `back`: after so many examples behind a flip the error was as before; infinite if never."""

    error: float
    loss: float
    early: float
    late: float
    features: float
    microseconds: float
    back: float


def batch_of(rows: Iterable[Mapping[Any, Any]], labels: Iterable[float]) -> Batch:
    """Return examples of these features: texts are categories, numbers are numbers."""
    ends, keys, values = [0], [], []
    for row in rows:
        for name, value in row.items():
            text = f"{name}={value}" if isinstance(value, str) else str(name)
            number = 1.0 if isinstance(value, str) else float(value)
            if number:
                keys.append(xxhash.xxh64_intdigest(text.encode()))
                values.append(number)
        ends.append(len(keys))
    given = np.array(list(labels), np.float64)
    return Batch(np.array(ends), np.array(keys, np.uint64), np.array(values, np.float32), given, np.ones(len(given)))


def of_arrays(found: Any, loss: Loss, classes: int) -> Set:
    """Return a set of scikit-learn's, shuffled."""
    order = np.random.default_rng(2).permutation(len(found.target))
    rows = [dict(enumerate(row)) for row in found.data[order].tolist()]
    labels = found.target[order].astype(np.float64)
    return Set(loss, classes, batch_of(rows, 2.0 * labels - 1.0 if loss == "logistic" else labels))


def of_river(stream: Iterable[tuple[Mapping[Any, Any], Any]], loss: Loss, classes: int, count: int) -> Set:
    """Return the first `count` examples of a stream of River's; classes are numbered as they come."""
    rows, labels = [], []
    known: dict[Any, int] = {}
    for x, given in islice(stream, count):
        rows.append({name: value for name, value in x.items() if isinstance(value, str | int | float)})
        y = next(iter(given.values())) if isinstance(given, dict) else given
        labels.append((1.0 if y else -1.0) if loss == "logistic" else known.setdefault(y, len(known)) if classes else y)
    return Set(loss, classes, batch_of(rows, labels))


def flipped(given: Set) -> Set:
    """Return the set with the labels of its second half turned over, or with each class there called as the next."""
    labels, middle = given.batch.labels.copy(), len(given.batch.labels) // 2
    labels[middle:] = (labels[middle:] + 1.0) % given.classes if given.classes else -labels[middle:]
    return given._replace(batch=given.batch._replace(labels=labels), flip=middle)


def of_file(path: Path, count: int) -> Set:
    """Return the first `count` examples of a file: shuffled, unless its name says that it is in the order of time."""
    batch = read_batch([path], LIMITS)
    kinds = np.unique(batch.labels)
    order = np.arange(len(batch.labels))
    if not path.name.startswith(("eeg", "cal-housing")):
        order = np.random.default_rng(1).permutation(len(order))
    batch = batch.select(order[:count])
    if len(kinds) > 2:
        return Set("squared", 0, batch)
    return Set("logistic", 0, batch._replace(labels=np.where(batch.labels == kinds[1], 1.0, -1.0)))


def sets(files: list[Path], count: int = ROWS) -> Iterator[tuple[str, Set]]:
    """Yield all sets by name, of each the first `count` examples."""
    for path in files:
        yield path.name.partition(".")[0], of_file(path, count)
    for name, classes in (("digits", 10), ("wine", 3), ("iris", 3)):
        yield name, of_arrays(getattr(shipped, f"load_{name}")(), "softmax", classes)
    yield "breast cancer", of_arrays(shipped.load_breast_cancer(), "logistic", 0)
    yield "diabetes", of_arrays(shipped.load_diabetes(), "squared", 0)
    makers: dict[str, tuple[Callable[[], Any], Loss, int]] = {
        "bananas": (river.datasets.Bananas, "logistic", 0),
        "phishing": (river.datasets.Phishing, "logistic", 0),
        "segments": (river.datasets.ImageSegments, "softmax", 7),
        "trump": (river.datasets.TrumpApproval, "squared", 0),
        "solar flares": (river.datasets.SolarFlare, "squared", 0),
        "chicks": (river.datasets.ChickWeights, "squared", 0),
        "agrawal": (lambda: synth.Agrawal(classification_function=4, seed=1), "logistic", 0),
        "sea": (lambda: synth.SEA(variant=0, seed=1), "logistic", 0),
        "hyperplane": (lambda: synth.Hyperplane(seed=1, n_features=10, n_drift_features=5), "logistic", 0),
        "rbf": (lambda: synth.RandomRBF(seed_model=1, seed_sample=1, n_classes=5, n_features=10), "softmax", 5),
        "rbf drift": (lambda: synth.RandomRBFDrift(seed_model=1, seed_sample=1, change_speed=0.001), "logistic", 0),
        "led": (lambda: synth.LEDDrift(seed=1, noise_percentage=0.1, n_drift_features=4), "softmax", 10),
        "friedman": (lambda: synth.Friedman(seed=1), "squared", 0),
        "friedman drift": (lambda: synth.FriedmanDrift(seed=1, drift_type="gra", position=(3000, 5000)), "squared", 0),
        "mv": (lambda: synth.Mv(seed=1), "squared", 0),
        "clicks": (lambda: ((each.features, each.label) for each in clicks(count, 1, 0, DAYS * DAY)), "logistic", 0),
    }
    made = {name: of_river(make(), loss, classes, count) for name, (make, loss, classes) in makers.items()}
    yield from made.items()
    for name in ("agrawal", "sea", "hyperplane"):
        yield f"{name}, flipped", flipped(made[name])


def held_out_sets(count: int) -> Iterator[tuple[str, Set]]:
    """Yield the sets by name on which no default was chosen."""
    for name, found, loss, classes in held_out.arrays(count):
        yield name, of_arrays(found, loss, classes)
    for name, (make, loss, classes) in held_out.STREAMS.items():
        yield name, of_river(make(), loss, classes, count)


def squared(given: Set) -> Set:
    """Return a set of two labels with the squared loss, labels being 0 and 1; any other as it is."""
    if given.loss != "logistic":
        return given
    return given._replace(
        loss="squared", batch=given.batch._replace(labels=(given.batch.labels > 0).astype(np.float64))
    )


def measured(given: Set, chosen: Mapping[str, Any]) -> Measured:
    """Learn a set in one pass."""
    batch, size = given.batch, len(given.batch.labels)
    options = {name: value for name, value in chosen.items() if name not in _NOT_FOR[given.loss]}
    learner, scores = Learner(Options(loss=given.loss, classes=given.classes, **options)), Scores.empty(size)
    began, start = time.process_time(), 0
    for end in (size * (part + 1) // EPOCHS for part in range(EPOCHS)):
        learner.learn(batch, start, end, scores)
        if end < size:
            learner.end_epoch()
        start = end
    seconds = time.process_time() - began
    errors = _errors(given, scores)
    late = scores.losses[-size // 5 :].mean()
    return Measured(
        float(errors.mean()), float(scores.losses.mean()), float(errors[:EARLY].mean()), float(late),
        learner.features_per_example, 1e6 * seconds / size, _back(errors, given.flip),
    )  # fmt: skip


_NOT_FOR: Mapping[Loss, frozenset[str]] = {
    "squared": frozenset(),
    "logistic": frozenset({"label_units", "stack_loss"}),
    "softmax": frozenset({"label_units", "shrinkage"}),
}


def _errors(given: Set, scores: Scores) -> NDArray[np.float64]:
    labels = given.batch.labels
    wrong: NDArray[np.bool_]
    if given.loss == "softmax":
        wrong = scores.predictions != labels
    elif given.loss == "logistic":
        wrong = scores.predictions * labels <= 0.0
    elif len(np.unique(labels)) == 2:
        wrong = (scores.predictions > 0.5) != (labels > 0.5)
    else:
        return scores.losses
    return wrong.astype(np.float64)


def _back(errors: NDArray[np.float64], flip: int) -> float:
    if not flip:
        return float("nan")
    level = errors[flip - BEFORE : flip].mean()
    means = np.convolve(errors[flip:], np.ones(FLIPPED) / FLIPPED, "valid")
    within = np.flatnonzero(means <= 1.1 * level)
    return float(within[0] + FLIPPED) if len(within) else float("inf")


def main() -> None:
    """Measure all sets by the defaults and by each variant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--squared", action="store_true", help="learn two labels with the squared loss")
    parser.add_argument("--flipped", action="store_true", help="only say how soon flips are overcome")
    parser.add_argument("--rows", type=int, default=ROWS, help="at most so many examples of a set")
    parser.add_argument("--held-out", action="store_true", help="other sets, on which no default was chosen")
    parser.add_argument("--only", choices=VARIANTS, help="this variant alone", metavar="VARIANT")
    parser.add_argument("files", nargs="*", type=Path)
    chosen = parser.parse_args()
    shown = chosen.only or "first defaults"
    variants = {shown: VARIANTS[shown]} if chosen.only else VARIANTS
    found_sets = dict(held_out_sets(chosen.rows) if chosen.held_out else sets(chosen.files, chosen.rows))
    if chosen.flipped:
        found_sets = {name: flipped(each) for name, each in found_sets.items() if _can_flip(each)}
    given = {name: squared(each) if chosen.squared else each for name, each in found_sets.items()}
    print(header("numpy", "numba", "river", "scikit-learn"))
    if chosen.flipped:
        _print_flips(given)
        return
    for each in {item.loss: item for item in given.values()}.values():  # what is compiled is not measured
        measured(each, {})
        measured(each, FIRST)
    usual = {name: measured(each, {}) for name, each in given.items()}
    found = {
        variant: {name: measured(each, changed) for name, each in given.items()}
        for variant, changed in variants.items()
    }
    print(f"\n{len(given)} sets | error | {shown} | features | {shown} | us | {shown} | back after | {shown}")
    for name, own in usual.items():
        first = found[shown][name]
        print(
            f"{name} | {own.error:.5g} | {first.error:.5g} | {own.features:.0f} | {first.features:.0f} | "
            f"{own.microseconds:.1f} | {first.microseconds:.1f} | {own.back:.0f} | {first.back:.0f}"
        )
    print("\nvariant | error | loss | early error | late loss | features | time")
    for variant, runs in found.items():
        ratios = [
            figure(f"{variant}, {field}", [_mean_ratio(runs, usual, field)], "of the default's")
            for field in ("error", "loss", "early", "late", "features", "microseconds")
        ]
        print(" | ".join([variant, *(f"{ratio:.3f}" for ratio in ratios)]))


def _can_flip(given: Set) -> bool:
    return given.loss != "squared" and not given.flip and len(given.batch.labels) >= 2 * BEFORE


def _print_flips(given: Mapping[str, Set]) -> None:
    """Print how soon each set is as before, by the default and without restarts."""
    variants: list[Mapping[str, Any]] = [{}, {"drift": "ignore"}]
    found = {name: [measured(each, changed) for changed in variants] for name, each in given.items()}
    print(f"\n{len(given)} sets, flipped | back after | restarts ignored | error | restarts ignored")
    for name, (own, ignoring) in found.items():
        print(f"{name} | {own.back:.0f} | {ignoring.back:.0f} | {own.error:.5g} | {ignoring.error:.5g}")
    for place, which in enumerate(("the default", "without restarts")):
        back = [min(runs[place].back, float(given[name].flip)) for name, runs in found.items()]
        mean = figure(f"back after, {which}", [float(np.exp(np.log(back).mean()))], "examples")
        print(f"{which}: {mean:.0f} in the geometric mean, {sum(each > 1000 for each in back)} after more than 1,000")


def _mean_ratio(runs: Mapping[str, Measured], usual: Mapping[str, Measured], field: str) -> float:
    """Return the geometric mean over the sets; errors of 0 count as one in ten thousand."""
    logs = [np.log((getattr(runs[name], field) + 1e-4) / (getattr(usual[name], field) + 1e-4)) for name in usual]
    return float(np.exp(np.mean(logs)))


if __name__ == "__main__":
    main()
