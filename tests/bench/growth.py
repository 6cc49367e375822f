"""How the cost of learning grows: `python tests/bench/growth.py [EXAMPLES [TABLE ...]]`.

Tables, of which all but the last have the straight line that fits best (least squares), its R^2, and its residual: the
root mean square of the distances from it, as a share of the mean cost.

    features  microseconds an example against the number of its features: examples of 28, 57, 114 and 228 base
              features. For linear, apple (mixture = false) and the mixture the abscissa is the number that has a slot
              and is learned; for quadratic that of all products, which it looks up whether they have a slot or not
    bits      the same against the table's bits: what a table that is twice as large costs more, since less of it is
              in the processor's caches
    classes   the same against the number of classes, 2, 5, 10 and 20, and as a multiple of what the logistic loss takes
              with one score; tables of 2^18 slots
    length    EXAMPLES (20,000) are learned, with the ends of epochs; then ten times as many without, so that the model
              grows no more: the time so far against the number of examples, and nanoseconds a feature by tenths
    ends      for how long an epoch's end holds up a mixture, whose table is three quarters full: milliseconds to let it
              grow, and to take its digest, beside those to read the table's slots once

In the first three tables, what is timed is the last half of EXAMPLES (quadratic: of a twentieth), without ends of
epochs in it. Medians of interleaved rounds. TABLE: those that are named, instead of all.
"""

import itertools
import sys
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import planted
from feeds.full_table import fill
from report import figure, header

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores
from stream_apple.learners.systems import warm_up_learning
from stream_apple.offline.schedule import Schedule, epoch_ends

EXAMPLES, ROUNDS, TENTHS = 20_000, 5, 10
DRAWS = (29, 60, 124, 259)  # for 28, 57, 114 and 228 features an example: the popular ones are drawn repeatedly
BITS, LENGTH_BITS = (16, 18, 20, 22, 24), 20
SIZES_BITS = 24  # most products have a slot: in a full table those without cost less than learning
METHODS: dict[str, dict[str, Any]] = {
    "linear": {"method": "linear"},
    "apple": {"mixture": False},
    "mixture": {},
    "quadratic": {"method": "quadratic"},
}
FEWER = {"quadratic": 20}
CLASSES, CLASS_BITS = (2, 5, 10, 20), 18
FULL, OFTEN = 0.75, 10  # ends of epochs in each round
ONE_SCORE = 1  # in place of a number of classes: the logistic loss

_Case = TypeVar("_Case", bound=Hashable)


class Cost(NamedTuple):
    """Of one stretch of examples: microseconds an example, and features an example that were learned."""

    microseconds: float
    features: float


class Line(NamedTuple):
    """The best straight line: y's rise per x, y at 0, R^2, and the residual as a share of y's mean."""

    slope: float
    start: float
    straightness: float
    residual: float


def fitted(x: list[float], y: list[float]) -> Line:
    """By least squares."""
    slope, start = np.polyfit(x, y, 1)
    rest = np.array(y) - (slope * np.array(x) + start)
    spread = float(np.sum((np.array(y) - np.mean(y)) ** 2))
    residual = float(np.sqrt(np.mean(rest**2)) / np.mean(y))
    return Line(float(slope), float(start), 1.0 - float(np.sum(rest**2)) / spread, residual)


def show(what: str, line: Line, unit: str, scale: float = 1.0) -> None:
    """The line's figures; its slope times `scale` has the unit."""
    slope = figure(f"{what}: slope", [line.slope * scale], unit, ROUNDS)
    straightness = figure(f"{what}: R^2", [line.straightness], "R^2", ROUNDS)
    residual = figure(f"{what}: residual", [line.residual], "of the mean", ROUNDS)
    print(
        f"  {what}: {slope:.3f} {unit} and {line.start:.3f} us at 0; straight line: R^2 {straightness:.5f},"
        f" residual {residual:.1%}",
        flush=True,
    )


def learned(learner: Learner, batch: Batch, start: int, stop: int) -> Cost:
    """What rows [start, stop) cost, without the end of an epoch."""
    part = planted.stretch(batch, start, stop)
    scores, before = Scores.empty(stop - start), _features(learner)
    begin = time.perf_counter()
    learner.learn(part, 0, stop - start, scores)
    seconds = time.perf_counter() - begin
    return Cost(seconds / (stop - start) * 1e6, (_features(learner) - before) / (stop - start))


def grown(options: Options, batch: Batch, stop: int) -> Learner:
    """A learner of rows [0, stop), with epochs that end after 1000, 2000, 4000, ... of them, and after the last."""
    learner, scores = Learner(options), Scores.empty(stop)
    for start, end in itertools.pairwise([0, *epoch_ends(stop, Schedule(doubling=1000))]):
        learner.learn(planted.stretch(batch, start, end), 0, end - start, scores)
        learner.end_epoch()
    return learner


def last_half(method: str, bits: int, batch: Batch) -> Cost:
    """Of as many examples as this method takes."""
    size = len(batch.labels) // FEWER.get(method, 1)
    return learned(grown(Options(**METHODS[method], bits=bits), batch, size // 2), batch, size // 2, size)


def medians(
    cases: Iterable[_Case], measure: Callable[[_Case], Cost], name: Callable[[_Case], str]
) -> dict[_Case, Cost]:
    """Interleave the cases, ROUNDS times."""
    rounds: dict[_Case, list[Cost]] = {case: [] for case in cases}
    for _ in range(ROUNDS):
        for case, costs in rounds.items():
            costs.append(measure(case))
    return {
        case: Cost(figure(name(case), [cost.microseconds for cost in costs], "us/example"), costs[0].features)
        for case, costs in rounds.items()
    }


def by_features(count: int) -> None:
    """The first table."""
    batches = {draws: planted.batch(count, draws) for draws in DRAWS}
    base = {draws: len(batch.keys) / count for draws, batch in batches.items()}
    for method in METHODS:

        def cost(draws: int, method: str = method) -> Cost:
            return last_half(method, SIZES_BITS, batches[draws])

        def name(draws: int, method: str = method) -> str:
            return f"{method}, {base[draws]:.0f} base features"

        costs = medians(DRAWS, cost, name)
        x = [_products(batches[draws]) if method == "quadratic" else costs[draws].features for draws in DRAWS]
        for draws, wide in zip(DRAWS, x, strict=True):
            us = costs[draws].microseconds
            print(
                f"  {method:10} {base[draws]:6.1f} base {costs[draws].features:9.1f} learned {wide:9.1f} in all"
                f" {us:9.3f} us {us / wide * 1e3:7.2f} ns each"
            )
        show(f"{method}, by features", fitted(x, [cost.microseconds for cost in costs.values()]), "ns/feature", 1e3)


def by_bits(count: int) -> None:
    """The second table."""
    batch = planted.batch(count)
    for method in METHODS:

        def cost(bits: int, method: str = method) -> Cost:
            return last_half(method, bits, batch)

        def name(bits: int, method: str = method) -> str:
            return f"{method}, 2^{bits} slots"

        costs = medians(BITS, cost, name)
        for bits, each in costs.items():
            print(f"  {method:10} 2^{bits} {each.features:9.1f} features {each.microseconds:9.3f} us")
        # From the smallest table on: one of 2^0 slots has no cost that means anything.
        line = fitted([float(bits - BITS[0]) for bits in BITS], [each.microseconds for each in costs.values()])
        show(f"{method}, by bits", line, "us/doubling")


def by_classes(count: int) -> None:
    """The third table."""
    batch = planted.batch(count)
    labels = {classes: planted.classes(count, classes) for classes in CLASSES}
    for method in ("linear", "apple", "mixture"):

        def cost(classes: int, method: str = method) -> Cost:
            if classes == ONE_SCORE:
                options, given = Options(**METHODS[method], bits=CLASS_BITS, loss="logistic"), batch
            else:
                options = Options(**METHODS[method], bits=CLASS_BITS, loss="softmax", classes=classes)
                given = batch._replace(labels=labels[classes])
            return learned(grown(options, given, count // 2), given, count // 2, count)

        def name(classes: int, method: str = method) -> str:
            return f"{method}, one score" if classes == ONE_SCORE else f"{method}, {classes} classes"

        costs = medians((ONE_SCORE, *CLASSES), cost, name)
        one = costs[ONE_SCORE].microseconds
        for classes, each in costs.items():
            times = figure(f"{name(classes)}, over one score", [each.microseconds / one], "ratio", ROUNDS)
            print(
                f"  {name(classes):24} {each.features:9.1f} features {each.microseconds:9.3f} us {times:6.2f} times one"
            )
        line = fitted([float(classes) for classes in CLASSES], [costs[classes].microseconds for classes in CLASSES])
        show(f"{method}, by classes", line, "us/class")


def by_length(count: int) -> None:
    """The fourth table."""
    batch = planted.batch((TENTHS + 1) * count)
    rounds: dict[str, list[list[Cost]]] = {"linear": [], "apple": [], "mixture": []}
    for _ in range(ROUNDS):
        for method, found in rounds.items():
            learner = grown(Options(**METHODS[method], bits=LENGTH_BITS), batch, count)
            starts = range(count, (TENTHS + 1) * count, count)
            found.append([learned(learner, batch, start, start + count) for start in starts])
    for method, found in rounds.items():
        tenths = [[costs[at].microseconds / costs[at].features * 1e3 for costs in found] for at in range(TENTHS)]
        each = [figure(f"{method}, tenth {at + 1}", tenth, "ns/feature") for at, tenth in enumerate(tenths)]
        ratio = figure(
            f"{method}, last tenth over first", [b / a for a, b in zip(tenths[0], tenths[-1], strict=True)], "ratio"
        )
        print(
            f"  {method:10} ns a feature by tenths: {' '.join(f'{ns:.2f}' for ns in each)}; last over first {ratio:.3f}"
        )
        # In microseconds an example, as the other tables: so many times n examples take so long, over n.
        so_far = np.median([np.cumsum([cost.microseconds for cost in costs]) for costs in found], axis=0)
        longer = figure(f"{method}, ten times the examples", [so_far[-1] / so_far[0]], "times the time", ROUNDS)
        print(f"  {method:10} {count * TENTHS} examples take {longer:.2f} times as long as {count}")
        show(f"{method}, by length", fitted([*range(1, TENTHS + 1)], so_far.tolist()), "us/example")


def by_ends(count: int) -> None:
    """The last table."""
    batch = planted.batch(count)
    for bits in BITS[1:]:
        learner = grown(Options(bits=bits), batch, count)
        fill(learner.table, FULL, degree=2)
        found: dict[str, list[float]] = {"grow": [], "digest": [], "read": []}
        for start in range(OFTEN * ROUNDS):
            learned(learner, batch, start * 100 % count, start * 100 % count + 100)
            for name, costs in found.items():
                begin = time.perf_counter()
                if name == "grow":
                    learner.end_epoch()
                elif name == "digest":
                    learner.digest()
                else:
                    learner.table.slots.view(np.uint64).sum()
                costs.append((time.perf_counter() - begin) * 1e3)
        grow, digest, read = (figure(f"epoch's end, 2^{bits} slots: {name}", found[name], "ms") for name in found)
        both = [a + b for a, b in zip(found["grow"], found["digest"], strict=True)]
        total = figure(f"epoch's end, 2^{bits} slots", both, "ms")
        over = figure(
            f"epoch's end, 2^{bits} slots, over a read",
            [a / b for a, b in zip(both, found["read"], strict=True)],
            "ratio",
        )
        print(
            f"  2^{bits} slots: {total:7.2f} ms, grow {grow:.2f}, digest {digest:.2f}; reading the slots"
            f" {read:.2f} ms, ratio {over:.2f}",
            flush=True,
        )


def main() -> None:
    """Print the tables that are named, or all."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLES
    tables: dict[str, tuple[str, Callable[[int], None]]] = {
        "features": (f", 2^{SIZES_BITS} slots", by_features),
        "bits": ("", by_bits),
        "classes": (f", 2^{CLASS_BITS} slots", by_classes),
        "length": (f", 2^{LENGTH_BITS} slots", by_length),
        "ends": (f", {FULL:.0%} full", by_ends),
    }
    print(header("numba", "numpy"))
    warm_up_learning(Options())
    print(f"medians of {ROUNDS} interleaved rounds")
    for name in sys.argv[2:] or tables:
        slots, table = tables[name]
        print(f"{name}{slots}")
        table(count)


def _features(learner: Learner) -> int:
    """Of all examples that it has learned."""
    return round(learner.features_per_example * learner.examples) if learner.examples else 0


def _products(batch: Batch) -> float:
    """An example's pairs of features, each with itself, and the features and the constant, in the mean."""
    lengths = np.diff(batch.indptr)
    return float(np.mean((lengths + 1) * (lengths + 2) / 2))


if __name__ == "__main__":
    main()
