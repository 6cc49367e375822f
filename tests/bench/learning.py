"""Time and loss of learning, beside Vowpal Wabbit's in the same run: `python tests/bench/learning.py [EXAMPLES]`.

Both take the planted benchmark in one pass with 2^18 slots. Vowpal Wabbit's time includes reading its text, which it
does in a second thread; the time of ours is that of the kernels.
"""

import itertools
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable  # noqa: TC003  the annotation is of a local
from pathlib import Path

import planted
from report import header
from vowpalwabbit import pyvw

from stream_apple.core.batch import Batch
from stream_apple.core.decode import Limits
from stream_apple.core.learner import Learner, Method, Options, Scores
from stream_apple.study.dataset import read_batch
from stream_apple.study.evaluation import Plan, epoch_ends

ROUNDS = 5
BITS = 18


def learn(batch: Batch, method: Method) -> tuple[float, float, float]:
    """Seconds, features in all, progressive loss."""
    size = len(batch.labels)
    learner, scores = Learner(Options(method=method, bits=BITS)), Scores.empty(size)
    start_time = time.perf_counter()
    for start, stop in itertools.pairwise([0, *epoch_ends(size, Plan(doubling=1000))]):
        learner.learn(batch, start, stop, scores)
        if stop < size:
            learner.end_epoch()
    seconds = time.perf_counter() - start_time
    return seconds, learner.features_per_example * learner.examples, learner.progress.progressive_loss


def vowpal_wabbit(path: Path, arguments: list[str]) -> tuple[float, float, float]:
    """The same of Vowpal Wabbit."""
    start = time.perf_counter()
    workspace = pyvw.Workspace(arg_list=["-d", str(path), "-b", str(BITS), *arguments], enable_logging=True)
    seconds = time.perf_counter() - start
    loss = workspace.get_sum_loss() / workspace.get_weighted_examples()
    workspace.finish()
    features = re.search(r"total feature number = (\d+)", "".join(workspace.get_log()))
    assert features
    return seconds, float(features[1]), loss


def main() -> None:
    """Interleave the contestants and print medians."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    print(header("numba", "numpy", "vowpalwabbit"))
    with tempfile.TemporaryDirectory() as directory:
        path = planted.write(count, Path(directory) / "planted.vw")
        batch = read_batch([path], Limits(65_535, 1 << 30, 1e6, -1e9, 1e9, binary=False))
        Learner(Options()).warm_up()
        contestants: dict[str, Callable[[], tuple[float, float, float]]] = {
            "stream_apple apple": lambda: learn(batch, "apple"),
            "Vowpal Wabbit --stage_poly": lambda: vowpal_wabbit(path, ["--stage_poly"]),
            "stream_apple linear": lambda: learn(batch, "linear"),
            "Vowpal Wabbit linear": lambda: vowpal_wabbit(path, []),
        }
        results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in contestants}
        for _ in range(ROUNDS):
            for name, contestant in contestants.items():
                results[name].append(contestant())
    print(f"{count} examples, 2^{BITS} slots, medians of {ROUNDS} interleaved runs")
    for name, rows in results.items():
        seconds = statistics.median(row[0] for row in rows)
        _, features, loss = rows[0]
        print(
            f"{name:28} loss {loss:.4f}  {features / count:6.1f} features/example  "
            f"{seconds / features * 1e9:5.1f} ns/feature  {seconds / count * 1e6:6.2f} us/example"
        )
    for method, ours, theirs in (
        ("apple", "stream_apple apple", "Vowpal Wabbit --stage_poly"),
        ("linear", "stream_apple linear", "Vowpal Wabbit linear"),
    ):
        pairs = list(zip(results[ours], results[theirs], strict=True))
        feature = statistics.median(a[0] / a[1] / (b[0] / b[1]) for a, b in pairs)
        example = statistics.median(a[0] / b[0] for a, b in pairs)
        print(f"{method}: time of ours over Vowpal Wabbit's, {feature:.2f} a feature, {example:.2f} an example")


if __name__ == "__main__":
    main()
