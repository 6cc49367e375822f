"""What the default does beside River's adaptive random forest of ten trees, on the sets of `defaults.py`.

    python tests/bench/forest.py [FILE ...]

Both learn the same examples in the same order, once through, with no setting but the loss; of each it prints the
progressive error (of amounts: squared loss) and examples a second of one core's time. The forest is given what is
absent as zeros, as its trees ask for each feature; sets of more than MOST_FEATURES are left out, for they would take it
hours. Where it fails (its trees of amounts may be without bounds), the ratio counts as LEAST.

A SMALL set is learned in ORDERS orders, by as many seeds of the forest, and the means are compared: in one order of 150
examples chance has much to say. Sets of River's keep their order, which may be that of time.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from defaults import Set, measured, sets
from report import figure, header
from river import forest

MOST_FEATURES, TREES, LEAST = 500, 10, 0.1
SMALL, ORDERS = ("titanic", "digits", "wine", "iris", "breast cancer", "diabetes"), 20


def rows_of(given: Set) -> Iterator[dict[int, float]]:
    """Yield each example by the numbers of its features, with zeros."""
    batch = given.batch
    names, numbers = np.unique(batch.keys, return_inverse=True)
    none = dict.fromkeys(range(len(names)), 0.0)
    for row in range(len(batch.labels)):
        span = slice(batch.indptr[row], batch.indptr[row + 1])
        yield none | dict(zip(numbers[span].tolist(), batch.values[span].tolist(), strict=True))


def grown(given: Set, seed: int) -> tuple[float, float]:
    """Return the forest's progressive error, and microseconds an example."""
    amounts = given.loss == "squared"
    model: Any = (forest.ARFRegressor if amounts else forest.ARFClassifier)(n_models=TREES, seed=seed)
    total, seconds = 0.0, 0.0
    for x, label in zip(rows_of(given), given.batch.labels.tolist(), strict=True):
        began = time.process_time()
        found = model.predict_one(x)
        model.learn_one(x, label)
        seconds += time.process_time() - began
        total += (float(found or 0.0) - label) ** 2 if amounts else found != label
    return total / len(given.batch.labels), 1e6 * seconds / len(given.batch.labels)


def in_orders(given: Set, count: int) -> Iterator[Set]:
    """Yield the set as it is, and in `count` - 1 random orders."""
    yield given
    for seed in range(1, count):
        order = np.random.default_rng(seed).permutation(len(given.batch.labels))
        yield given._replace(batch=given.batch.select(order))


def main() -> None:
    """Print a line for each set, and how many times as good and as fast ours is."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    given = dict(sets(parser.parse_args().files))
    given = {name: each for name, each in given.items() if len(np.unique(each.batch.keys)) <= MOST_FEATURES}
    print(header("numpy", "numba", "river", "scikit-learn"))
    for each in {item.loss: item for item in given.values()}.values():  # what is compiled is not measured
        measured(each, {})
    print(f"\n{len(given)} sets | error | the forest's | ratio | examples/s | the forest's | ratio")
    errors, speeds = [], []
    for name, each in given.items():
        orders = list(in_orders(each, ORDERS if name in SMALL else 1))
        ours = [measured(order, {}) for order in orders]
        theirs = [grown(order, seed) for seed, order in enumerate(orders, 1)]
        own, own_time = np.mean([(one.error, one.microseconds) for one in ours], axis=0)
        error, microseconds = np.mean(theirs, axis=0)
        errors.append(max((own + 1e-4) / (error + 1e-4), LEAST))
        speeds.append(microseconds / own_time)
        print(
            f"{name} | {own:.5g} | {error:.5g} | {own / error:.3f} | {1e6 / own_time:,.0f} | "
            f"{1e6 / microseconds:,.0f} | {speeds[-1]:.0f}",
            flush=True,
        )
    mean = figure("error over the forest's", [float(np.exp(np.mean(np.log(errors))))], "times")
    speed = figure("examples/s over the forest's", [float(np.exp(np.mean(np.log(speeds))))], "times")
    print(f"geometric means {mean:.3f} and {speed:.0f}; error at most the forest's on {sum(e <= 1.0 for e in errors)}")
    print(f"at least 100 times as fast on {sum(each >= 100.0 for each in speeds)}; worst {max(errors):.3f}")


if __name__ == "__main__":
    main()
