"""Time and loss of learning, beside Vowpal Wabbit's: `python tests/bench/learning.py [EXAMPLES [BITS]]`.

Both take the planted benchmark in one pass with 2^BITS slots, in the same run: ours as it is by default, the mixture of
five predictors; apple alone (mixture = false); and linear. Vowpal Wabbit's time includes reading
its text, which it does in a second thread; the time of ours is that of the kernels.

The time to Vowpal Wabbit's loss: after which share of its whole time our mean loss from the first example on is down
at the mean that it ends with, and stays there, by the clock of the same round. Ours is looked at every 1000 examples.
"""

import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import planted
from report import figure, header
from yardsticks import Run, vowpal_wabbit

from stream_apple.core.batch import Batch, Limits
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores
from stream_apple.learners.systems import warm_up_learning
from stream_apple.offline.dataset import read_batch
from stream_apple.offline.schedule import Schedule, epoch_ends

ROUNDS, CHUNK = 5, 1000
SAME_LOSS = 1e-4  # two runs with the same features differ by so much, see the tests of parity


class Moment(NamedTuple):
    """On the way: wall seconds of learning so far, and the mean loss so far."""

    seconds: float
    loss: float


Passed = tuple[Run, Sequence[Moment]]
"""One pass, and what was seen on the way; nothing of Vowpal Wabbit's."""


def learn(batch: Batch, options: Options) -> Passed:
    """One pass of ours, a chunk at a time. Looking at the loss is not counted."""
    size, spent, moments = len(batch.labels), 0.0, []
    learner = Learner(options)
    ends = epoch_ends(size, Schedule(doubling=CHUNK))
    for start in range(0, size, CHUNK):
        chunk = planted.stretch(batch, start, min(start + CHUNK, size))
        begin = time.perf_counter()
        learner.learn(chunk, 0, len(chunk.labels), Scores.empty(len(chunk.labels)))
        if start + CHUNK < size and start + CHUNK in ends:
            learner.end_epoch()
        spent += time.perf_counter() - begin
        moments.append(Moment(spent, learner.progress.report("whole").loss))
    return Run(spent, learner.features_per_example * learner.examples, moments[-1].loss), moments


def time_to(loss: float, moments: Sequence[Moment]) -> float:
    """Seconds until the mean loss is down at `loss` for good; infinite if it never is."""
    reached = math.inf
    for moment in reversed(moments):
        if moment.loss > loss + SAME_LOSS:
            break
        reached = moment.seconds
    return reached


def show(name: str, count: int, runs: Sequence[Run]) -> None:
    """A line of one contestant."""
    seconds = figure(f"{name}: time", [run.seconds for run in runs], "s")
    feature = figure(f"{name}: a feature", [run.seconds / run.features * 1e9 for run in runs], "ns/feature")
    loss = figure(f"{name}: progressive loss", [run.loss for run in runs], "loss")
    features = figure(f"{name}: features an example", [run.features / count for run in runs], "features/example")
    print(
        f"{name:28} loss {loss:.4f}  {features:6.1f} features/example  "
        f"{feature:5.1f} ns/feature  {seconds / count * 1e6:6.2f} us/example"
    )


def compare(name: str, ours: Sequence[Passed], theirs: Sequence[Run]) -> None:
    """Medians of the rounds' ratios."""
    pairs = [(run, other) for (run, _), other in zip(ours, theirs, strict=True)]
    shares = [a.seconds / a.features / (b.seconds / b.features) for a, b in pairs]
    feature = figure(f"{name}: ours over Vowpal Wabbit's, a feature", shares, "ratio")
    example = figure(
        f"{name}: ours over Vowpal Wabbit's, an example", [a.seconds / b.seconds for a, b in pairs], "ratio"
    )
    print(f"{name}: time of ours over Vowpal Wabbit's, {feature:.2f} a feature, {example:.2f} an example")
    reached = [time_to(run.loss, moments) / run.seconds for (_, moments), run in zip(ours, theirs, strict=True)]
    if math.isinf(max(reached)):
        print(
            f"{name}: Vowpal Wabbit's final loss is not reached in {sum(map(math.isinf, reached))} of {ROUNDS} rounds"
        )
        return
    share = figure(f"{name}: time to Vowpal Wabbit's final loss over its whole time", reached, "ratio")
    seconds = [time_to(run.loss, moments) for (_, moments), run in zip(ours, theirs, strict=True)]
    spent = figure(f"{name}: time to Vowpal Wabbit's final loss", seconds, "s")
    print(f"{name}: Vowpal Wabbit's final loss is reached after {spent:.2f} s, {share:.3f} of its whole time")


def main() -> None:
    """Interleave the contestants and print medians."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    bits = int(sys.argv[2]) if len(sys.argv) > 2 else 18
    print(header("numba", "numpy", "vowpalwabbit"))
    with tempfile.TemporaryDirectory() as directory:
        path = planted.write(count, Path(directory) / "planted.vw")
        batch = read_batch([path], Limits(65_535, 1 << 30, 1e6, -1e9, 1e9, binary=False))
        warm_up_learning(Options())
        contestants: dict[str, Callable[[], Passed]] = {
            "stream_apple mixture": lambda: learn(batch, Options(bits=bits)),
            "stream_apple apple": lambda: learn(batch, Options(bits=bits, mixture=False)),
            "Vowpal Wabbit --stage_poly": lambda: (vowpal_wabbit(path, bits, ["--stage_poly"]), ()),
            "stream_apple linear": lambda: learn(batch, Options(method="linear", bits=bits)),
            "Vowpal Wabbit linear": lambda: (vowpal_wabbit(path, bits, []), ()),
        }
        results: dict[str, list[Passed]] = {name: [] for name in contestants}
        for _ in range(ROUNDS):
            for name, contestant in contestants.items():
                results[name].append(contestant())
    print(f"{count} examples, 2^{bits} slots, medians of {ROUNDS} interleaved runs")
    for name, rows in results.items():
        show(name, count, [run for run, _ in rows])
    pairs = [
        ("mixture", "stream_apple mixture", "Vowpal Wabbit --stage_poly"),
        ("apple", "stream_apple apple", "Vowpal Wabbit --stage_poly"),
        ("linear", "stream_apple linear", "Vowpal Wabbit linear"),
    ]
    for name, ours, theirs in pairs:
        compare(name, results[ours], [run for run, _ in results[theirs]])


if __name__ == "__main__":
    main()
