"""What learning costs, method by method, beside two yardsticks: `python tests/bench/kernels.py [EXAMPLES [BITS ...]]`.

Planted examples are learned in one pass by each method with both losses, with tables of 2^BITS slots: 18, 20, 22 and
24 if none are named. `mixture` is what is learned by default, `apple` the same with mixture = false. EXAMPLES (20,000)
is for these; linear takes five times as many, quadratic a fifth, and cubic a hundredth. A pass starts from nothing, so
it has, on either side, the system's making of the table's memory, which is much of the time where a table is large and
examples are few. The yardsticks, in the same rounds:

    VW      Vowpal Wabbit on the same examples with as many bits. Its time includes its start, a few milliseconds, and
            reading its text, which it does in a second thread. What it calls features includes all products; ours are
            those that have a slot, which in a small table are fewer: then the time of an example is what compares.
    memory  a loop that only reads and writes the slots that the last half of the examples visit: the very slots in
            their order, of a table of that size. Beside it stands our time for that half, when the table is filled.
            Ours has the look-ups of products without a slot in it: of a full table the ratio tells little.
"""

import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import planted
from report import figure, header
from yardsticks import Addresses, Memory, Run, vowpal_wabbit

from stream_apple.core.batch import Batch, Limits
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import LossName, Options
from stream_apple.learners.scores import Scores
from stream_apple.learners.systems import warm_up_learning
from stream_apple.offline.dataset import read_batch
from stream_apple.offline.schedule import Schedule, epoch_ends

ROUNDS = 5
EXAMPLES, BITS = 20_000, (18, 20, 22, 24)
SHARES: dict[str, float] = {"linear": 5, "apple": 1, "mixture": 1, "quadratic": 0.2, "cubic": 0.01}
OURS: dict[str, dict[str, Any]] = {"apple": {"mixture": False}, "mixture": {}}  # others: the method of that name
THEIRS: dict[str, list[str]] = {
    "linear": [],
    "apple": ["--stage_poly"],
    "mixture": ["--stage_poly"],
    "quadratic": ["-q", "::"],
    "cubic": ["-q", "::", "--cubic", ":::"],
}
MOST_ROWS, MOST_VISITS = 2_000, 2_000_000  # of the last half, for the floor: longer than any cache


class Round(NamedTuple):
    """One pass of ours and of Vowpal Wabbit; nanoseconds a feature of our last half, and of its visits to memory."""

    ours: Run
    theirs: Run
    late_ns: float
    memory_ns: float


class Input(NamedTuple):
    """The same examples, for both."""

    batch: Batch
    path: Path


def make_input(count: int, directory: Path) -> Input:
    """So many planted examples."""
    path = planted.write(count, directory / f"planted-{count}.vw")
    return Input(read_batch([path], Limits(65_535, 1 << 30, 1e6, -1e9, 1e9, binary=False)), path)


def features_of(learner: Learner) -> int:
    """Of all examples that it has learned, together."""
    return round(learner.features_per_example * learner.examples) if learner.examples else 0


def learn(batch: Batch, learner: Learner) -> tuple[Run, float]:
    """One pass; nanoseconds a feature of its last half. Epochs end as in `learning.py`."""
    size, scores = len(batch.labels), Scores.empty(len(batch.labels))
    ends = epoch_ends(size, Schedule(doubling=1000))
    middle, middle_time, middle_features = size // 2, 0.0, 0
    start_time = time.perf_counter()
    for start, stop in itertools.pairwise(sorted({0, middle, *ends})):
        if start == middle:
            middle_time, middle_features = time.perf_counter(), features_of(learner)
        learner.learn(batch, start, stop, scores)
        if stop in ends and stop < size:
            learner.end_epoch()
    end_time, features = time.perf_counter(), features_of(learner)
    late = (end_time - middle_time) / (features - middle_features) * 1e9
    return Run(end_time - start_time, features, learner.progress.report("whole").loss), late


def visited(batch: Batch, learner: Learner) -> Addresses:
    """The slots of the last half of the examples, which `learner` learns once more, one by one."""
    size, scores, found, count = len(batch.labels), Scores.empty(1), [], 0
    for row in range(size // 2, min(size, size // 2 + MOST_ROWS)):
        before = features_of(learner)
        learner.learn(planted.stretch(batch, row, row + 1), 0, 1, scores)
        # What the kernel leaves in its scratch: the slots of the example's features.
        found.append(learner._work.features.slot[: features_of(learner) - before].astype(np.uint32))
        count += len(found[-1])
        if count > MOST_VISITS:
            break
    return np.concatenate(found)


def rounds_of(bits: int, loss: LossName, inputs: dict[str, Input], memory: Memory) -> dict[str, list[Round]]:
    """All methods in turn, ROUNDS times."""
    rounds: dict[str, list[Round]] = {method: [] for method in inputs}
    addresses: dict[str, Addresses] = {}
    for _ in range(ROUNDS):
        for method, (batch, path) in inputs.items():
            learner = Learner(Options(**OURS.get(method, {"method": method}), loss=loss, bits=bits))
            ours, late = learn(batch, learner)
            if method not in addresses:
                addresses[method] = visited(batch, learner)
            del learner  # its table is large
            theirs = vowpal_wabbit(path, bits, ["--loss_function", loss, *THEIRS[method]])
            visits = addresses[method]
            rounds[method].append(Round(ours, theirs, late, memory.visit(visits) / len(visits) * 1e9))
    return rounds


def show(what: str, count: int, rounds: list[Round]) -> None:
    """A line with medians, and medians of each round's ratios."""

    def keep(name: str, values: list[float], unit: str) -> float:
        return figure(f"{what}: {name}", values, unit)

    ours, theirs = [each.ours for each in rounds], [each.theirs for each in rounds]
    line = f"{what:26} {count:6}"
    for name, runs in (("ours", ours), ("VW", theirs)):
        each = keep(f"{name}, features an example", [run.features / count for run in runs], "features/example")
        feature = keep(f"{name}, a feature", [run.seconds / run.features * 1e9 for run in runs], "ns/feature")
        example = keep(f"{name}, an example", [run.seconds / count * 1e6 for run in runs], "us/example")
        line += f" | {each:8.1f} {feature:6.2f} {example:8.2f}"
    pairs = list(zip(ours, theirs, strict=True))
    example = keep("ours over VW, an example", [a.seconds / b.seconds for a, b in pairs], "ratio")
    shares = [a.seconds / a.features / (b.seconds / b.features) for a, b in pairs]
    feature = keep("ours over VW, a feature", shares, "ratio")
    late = keep("ours, a feature of the last half", [each.late_ns for each in rounds], "ns/feature")
    floor = keep("memory, a feature", [each.memory_ns for each in rounds], "ns/feature")
    over = keep("ours over memory, a feature", [each.late_ns / each.memory_ns for each in rounds], "ratio")
    print(f"{line} | {example:7.2f} {feature:7.2f} | {late:6.2f} {floor:6.2f} {over:6.2f}", flush=True)


def main() -> None:
    """Print a table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLES
    sizes = [int(argument) for argument in sys.argv[2:]] or BITS
    print(header("numba", "numpy", "vowpalwabbit"))
    warm_up_learning(Options())
    print(
        f"medians of {ROUNDS} interleaved rounds: ours, Vowpal Wabbit's, ours over its; the last half, in ns a feature"
    )
    three = f"{'features':>8} {'ns/f':>6} {'us/ex':>8}"
    shares, late = f"{'example':>7} {'feature':>7}", f"{'ours':>6} {'memory':>6} {'ratio':>6}"
    print(f"{'method, loss, bits':26} {'rows':>6} | {three} | {three} | {shares} | {late}")
    with tempfile.TemporaryDirectory() as directory:
        inputs = {method: make_input(max(2, round(count * by)), Path(directory)) for method, by in SHARES.items()}
        for bits in sizes:
            memory = Memory(bits)
            for loss in ("squared", "logistic"):
                for method, rounds in rounds_of(bits, loss, inputs, memory).items():
                    show(f"{method}, {loss}, 2^{bits}", len(inputs[method].batch.labels), rounds)


if __name__ == "__main__":
    main()
