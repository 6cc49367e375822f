"""The measured and derived numbers as tables of comma-separated values, for other programs."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from study.report.outcomes import Outcomes
from study.tasks import Measures, Task

RUNS = "results.csv"
ENDS = "epoch_losses.csv"
DERIVED = "derived.csv"

_SCALARS = [name for name in Measures._fields if name != "ends"]
_END = ["epoch", "examples", "progressive_loss", "linear_progressive_loss"]


def write_tables(finished: Sequence[tuple[Task, Measures]], outcomes: Outcomes, folder: Path) -> None:
    """Write all runs, tuning included; the losses at the ends of epochs; and a row for each method on each set."""
    ordered = sorted(finished, key=lambda run: [str(part) for part in run[0]])
    write_csv(
        folder / RUNS,
        [*Task._fields, *_SCALARS],
        ([*task, *(getattr(measures, name) for name in _SCALARS)] for task, measures in ordered),
    )
    write_csv(
        folder / ENDS,
        [*Task._fields, *_END],
        ([*task, number, *end] for task, measures in ordered for number, end in enumerate(measures.ends, 1)),
    )
    write_csv(
        folder / DERIVED,
        ["data_set", "method", "rate", "error", "relative_error", "relative_time", "seconds", "features_per_example"],
        (
            [
                facts.name,
                line.label,
                cell.rate,
                cell.error,
                outcomes.relative_error(line, facts.name),
                outcomes.relative_time(line, facts.name),
                cell.seconds,
                cell.features,
            ]
            for facts in outcomes.sets
            for line in outcomes.lines
            if (cell := outcomes.cells.get((line.label, facts.name))) is not None
        ),
    )


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write the table; None becomes an empty cell."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)
