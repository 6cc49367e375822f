"""Hold predictions to what they were: `python tests/bench/accuracy.py [--sets GROUP] [--data FOLDER] [--write]`.

`tests/accuracy.toml` has, for each set and each way to learn it, the progressive loss, the progressive error, and the
mean number of features of an example. This command measures them again and prints what differs: by more than 0.5 % in
loss or error, or by more than 2 % in features. Its exit code is then 1. With --write it writes the file instead.

    quick    some sets of `carried`, for `make test`
    carried  sets that this repository, scikit-learn, and River carry or make
    shared   real sets, one file each, in the folder that --data names

Every set is learned by the default settings and by `method = "linear"`. A set of two labels is learned with squared and
with logistic loss. `DELAYS` names the sets whose labels also come late, and `MERGED` those that four learners share.
The loss of a regression is its mean squared error, so it has no other error.
"""

import argparse
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import planted

from stream_apple.learners.apple.options import Method, Options
from stream_apple.offline.evaluation import Result, evaluate
from stream_apple.offline.late_labels import known_after_examples
from stream_apple.offline.schedule import Schedule
from stream_apple.offline.sharding.lockstep import Exchange
from stream_apple.offline.sharding.sharded import Sharding, evaluate_together

sys.path += [str(folder) for folder in Path(__file__).parents[1:3]]

from support.frozen_figures import Figures, Measured, differences, toml_of

from study.carried_sets import CarriedSet, carried_sets, held_out_sets, set_of_file, with_squared_loss

ROOT = Path(__file__).resolve().parents[2]
FROZEN, DATA, SUFFIX = ROOT / "tests" / "accuracy.toml", ROOT.parent / "shared" / "data", ".svm.gz"
MOST, MADE, PLANTED = 50_000, 8_000, 12_000  # examples of a shared set, of one that is made, and of the planted ones
PARTITIONS = 4
SCHEDULE = Schedule(epochs=6, test_fraction=0.0, keep_order=True)
METHODS: tuple[Method, ...] = ("apple", "linear")

QUICK = ("planted", "bananas", "segments", "friedman", "rbf", "clicks", "sea, flipped", "breast cancer")
DELAYS = {"planted": 500, "clicks": 1_000, "adult": 2_500, "eeg-eye-state": 200}
"""Set -> after how many examples its labels come. With 2,500 more examples wait than a model remembers."""
MERGED = frozenset({"planted", "rbf", "covtype"})

IMPROVED: Mapping[str, str] = {}
"""Set and run, as in "adult: logistic" -> why its figures are lower than the frozen ones by more than the bounds."""

HEAD = """\
# What `tests/bench/accuracy.py` measured; `tests/test_accuracy.py` holds every later commit to it.
# Of each set: how many examples it has, their mean number of values, and their mean label. Of each run: progressive
# loss, progressive error (a regression has none), and the mean number of features of an example, with the constant."""


def carried() -> Iterator[tuple[str, CarriedSet]]:
    """Yield the sets by name that need no file beside the repository."""
    made = planted.batch(PLANTED)
    yield "planted", CarriedSet("logistic", 0, made)
    yield "planted classes", CarriedSet("softmax", 5, made._replace(labels=planted.classes(PLANTED, 5)))
    yield from carried_sets(MADE)
    yield from held_out_sets(MADE)


def shared(folder: Path) -> Iterator[tuple[str, CarriedSet]]:
    """Yield the sets of a folder by name."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        yield path.name.removesuffix(SUFFIX), set_of_file(path, MOST)


def quick() -> Iterator[tuple[str, CarriedSet]]:
    """Yield the sets of `QUICK` by name; others are made, too, which takes little, but not learned."""
    left = set(QUICK)
    for name, given in carried():
        if name in left:
            yield name, given
            left.remove(name)
        if not left:
            return


def measured(name: str, given: CarriedSet) -> Measured:
    """Learn a set in every way."""
    labels, size = given.batch.labels, len(given.batch.labels)
    identity = {"examples": size, "values": len(given.batch.keys) / size, "label": float(labels.mean())}
    runs: dict[str, Figures] = {}
    for each in [given] if given.loss != "logistic" else [with_squared_loss(given), given]:
        for method in METHODS:
            title = each.loss if method == "apple" else f"{each.loss}, {method}"
            options = options_of(each, method)
            runs[title] = figures_of(evaluate(each.batch, options, SCHEDULE).result)
            if name in DELAYS:
                known = known_after_examples(size, DELAYS[name])
                runs[f"{title}, late"] = figures_of(evaluate(each.batch, options, SCHEDULE, known).result)
            if name in MERGED:
                options = options_of(each, method, merged=True)
                together = evaluate_together(each.batch, options, SCHEDULE, Sharding(PARTITIONS, Exchange()))
                runs[f"{title}, merged"] = figures_of(together.run.result)
    return Measured(identity, runs)


def options_of(given: CarriedSet, method: Method, *, merged: bool = False) -> Options:
    """Return the default settings with this method, for labels as the set has them."""
    chosen: dict[str, Any] = {"method": method, "loss": given.loss, "classes": given.classes}
    return Options(**chosen, mergeable=merged or None)


def figures_of(result: Result) -> Figures:
    """Return what is frozen of a run; AssertionError if nothing was learned."""
    assert result.progressive_loss is not None
    assert result.features_per_example is not None
    return Figures(result.progressive_loss, result.progressive_error, result.features_per_example)


def measure_all(given: Iterator[tuple[str, CarriedSet]]) -> dict[str, Measured]:
    """Learn these sets, and print what is found."""
    found: dict[str, Measured] = {}
    began = time.process_time()
    for name, each in given:
        found[name] = measured(name, each)
        for run, (loss, error, features) in found[name].runs.items():
            shown = "" if error is None else f"{error:.4g}"
            print(f"{name:20} {run:24} {loss:10.5g} {shown:>8} {features:8.1f}")
        print(f"{name:20} {time.process_time() - began:.1f} s", flush=True)
        began = time.process_time()
    return found


def main() -> None:
    """Measure; then compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", choices=["quick", "carried", "shared"], help="this group alone")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the shared sets")
    parser.add_argument("--write", action="store_true", help="write the file instead of comparing")
    chosen = parser.parse_args()
    if chosen.write and chosen.sets:
        parser.error("expected --write or --sets, found both: the file has all sets")
    if chosen.sets in {None, "shared"} and not any(chosen.data.glob(f"*{SUFFIX}")):
        parser.error(f"expected files named *{SUFFIX} in {chosen.data}, found none: --data names their folder")
    makers: dict[str, Callable[[], Iterator[tuple[str, CarriedSet]]]] = {
        "quick": quick,
        "carried": carried,
        "shared": lambda: shared(chosen.data),
    }
    found = {group: measure_all(makers[group]()) for group in ([chosen.sets] if chosen.sets else ["carried", "shared"])}
    print(f"{time.process_time():.0f} s of processor time")
    if chosen.write:
        FROZEN.write_text("\n".join([HEAD, *toml_of(found)]) + "\n")
        return
    frozen = tomllib.loads(FROZEN.read_text())
    frozen["quick"] = {name: frozen["carried"][name] for name in QUICK}
    lines = [line for group, sets in found.items() for line in differences(sets, frozen[group], IMPROVED)]
    print("\n".join(lines) or "nothing differs")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
