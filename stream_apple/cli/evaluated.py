"""What `stream-apple evaluate` prints and writes of a run."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from rich import box
from rich.table import Table

from stream_apple.cli.output import say, table_console
from stream_apple.offline.evaluation import ALIKE, Run
from stream_apple.offline.plot import draw_learning_curve
from stream_apple.whole_files import whole_file


def write_run(run: Run, predictions: Path | None, picture: Path | None) -> None:
    """Write the files that were asked for."""
    if predictions is not None:
        with whole_file(predictions) as unfinished, unfinished.open("w", encoding="ascii") as file:
            file.writelines(_lines_of(run))
    if picture is not None:
        with whole_file(picture) as unfinished:
            draw_learning_curve(run, unfinished)


def _lines_of(run: Run) -> Iterator[str]:
    """Yield a line for each training example: its score, or its class and that class's probability."""
    scores = run.scores
    if not run.loss.multiclass:
        yield from (f"{score!r}\n" for score in scores.predictions.tolist())
        return
    pairs = zip(scores.predictions.tolist(), scores.probabilities.tolist(), strict=True)
    yield from (f"{number:.0f} {probability!r}\n" for number, probability in pairs)


def show_run(run: Run, found: Mapping[str, object]) -> None:
    """Print facts on the run, the measures of the predictors side by side, and a verdict."""
    facts = run.facts() | dict(found)
    table = Table(show_header=False, box=None)
    for name in ("method", "examples", "features_per_example", "parents", "seconds", *found):
        table.add_row(name.replace("_", " "), _shown(facts[name]))
    console = table_console()
    console.print(table)
    console.print(_side_by_side(run, facts))
    say(run.verdict())


def _side_by_side(run: Run, facts: Mapping[str, object]) -> Table:
    """Return a table with a row for each measure, a column for each predictor, and the best predictor."""
    columns = {"the mixture" if run.mixed else run.result.method: ""}
    if run.mixed:
        columns["expanded"] = "expanded_"
    if run.result.method != "linear":
        columns["linear"] = "linear_"
    table = Table("", *columns, "best constant", "best", box=box.SIMPLE_HEAD)
    for part in ("progressive", "test"):
        for measure in ("loss", "auc", "calibration_error", "error"):
            found = {name: facts.get(f"{prefix}{part}_{measure}") for name, prefix in columns.items()}
            if f"{part}_{measure}" == "progressive_loss":
                found["best constant"] = facts["best_constant_loss"]
            elif f"{part}_{measure}" == "progressive_error" and "best_constant_error" in facts:
                found["best constant"] = facts["best_constant_error"]
            known = {name: value for name, value in found.items() if isinstance(value, float)}
            if known:
                label = f"{part} {measure.replace('auc', 'AUC').replace('_', ' ')}"
                cells = (_shown(found.get(name)) if name in found else "" for name in (*columns, "best constant"))
                table.add_row(label, *cells, _best(known, -1 if measure == "auc" else 1))
    return table


def _best(known: Mapping[str, float], sign: int) -> str:
    """Return the name of the least value, or of the greatest if `sign` is -1; "alike" for a draw, "" if it is alone."""
    if len(known) == 1:
        return ""
    (first, best), (_, second), *_ = sorted(known.items(), key=lambda item: sign * item[1])
    return first if abs(second - best) > ALIKE * abs(second) else "alike"


def _shown(value: object) -> str:
    return "-" if value is None else f"{value:z.6g}" if isinstance(value, float) else str(value)
