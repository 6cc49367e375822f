"""`stream-apple evaluate`: the same learner without a stream."""

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from click.core import ParameterSource
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from stream_apple.cli.example_times import ColumnOption, Times, column_option, times_options
from stream_apple.cli.options.learner import LearnerChoice, learner_options
from stream_apple.cli.output import say, table_console
from stream_apple.cli.parameters import duration, gathered
from stream_apple.config import EpochSettings, load
from stream_apple.config.duration import format_duration
from stream_apple.config.memory import check_models_fit
from stream_apple.config.schema import EPOCH_LENGTH, MAX_AHEAD
from stream_apple.core.batch import Limits
from stream_apple.core.event_time import EpochClock
from stream_apple.study.dataset import read_batch, read_timed_batch
from stream_apple.study.evaluation import ALIKE, Run, Schedule, evaluate
from stream_apple.study.event_epochs import cut_by_time
from stream_apple.study.plot import draw_learning_curve


class _Pass(NamedTuple):
    """How the examples are used: the fields of `Schedule` that can be given."""

    epochs: int
    doubling: int | None
    test_fraction: float
    seed: int
    keep_order: bool


class _Spans(NamedTuple):
    """Epochs that are spans of event time: what the configuration has in [epochs], in milliseconds."""

    epoch_length: int | None
    max_ahead: int


class _Output(NamedTuple):
    """Where the result goes."""

    predictions: Path | None
    plot: Path | None
    as_json: bool


@click.command(name="evaluate")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@learner_options
@click.option("--epochs", type=click.IntRange(1), default=6, show_default=True, help="Equally long epochs in the pass.")
@click.option("--doubling", type=click.IntRange(1), help="Instead: epochs end after DOUBLING * 2^k examples.")
@click.option(
    "--epoch-length",
    callback=duration(EPOCH_LENGTH.low, most=EPOCH_LENGTH.high),
    metavar="DURATION",
    help="Instead, as a worker: epochs are spans of the examples' times, such as 1h. Keeps the order of the files.",
)
@click.option(
    "--max-ahead",
    callback=duration(MAX_AHEAD.low, most=MAX_AHEAD.high),
    default=format_duration(EpochSettings().max_ahead),
    show_default=True,
    metavar="DURATION",
    help="With --epoch-length: an example whose time is further ahead of those before it is left out.",
)
@column_option
@times_options(start="the beginning of an epoch")
@click.option(
    "--test-fraction",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.2,
    show_default=True,
    help="Share that is only scored.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the shuffle.")
@click.option("--no-shuffle", "keep_order", is_flag=True, help="Keep the order of the files.")
@click.option("--predictions", type=click.Path(path_type=Path, dir_okay=False), help="Write progressive predictions.")
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw the progressive loss (extra: study)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@gathered(learner=LearnerChoice, share=_Pass, spans=_Spans, times=Times, output=_Output, columns=ColumnOption)
def command(
    files: tuple[Path, ...],
    learner: LearnerChoice,
    share: _Pass,
    spans: _Spans,
    times: Times,
    output: _Output,
    columns: ColumnOption,
) -> None:
    """Learn from FILES in one pass and print progressive and test loss, with AUC and calibration where
    there are two labels, and with the share of wrong classes where there are more (--loss softmax).

    FILES hold svmlight, Vowpal Wabbit text, JSON lines, msgpack, CSV or Parquet, gzipped or not (but Parquet), told
    apart by content.
    PREDICTIONS gets one line for each training example, in the order learned: the score given before learning it, or
    the class and its probability.

    With --epoch-length, epochs are those of a worker: the times come from --timestamp-field or from --interval,
    by the rules of `stream-apple produce`.
    """
    _check(spans, times)
    roles = columns.roles()
    defaults = load(None, {}).limits
    options = learner.options(defaults.max_features_per_example)
    limits = Limits(
        max_features=(defaults.max_features_per_example - 1) // options.longest_ngram,
        max_record_bytes=1 << 30,
        max_weight=defaults.max_weight,
        min_label=defaults.min_label,
        max_label=defaults.max_label,
        binary=options.loss == "logistic",
        classes=options.classes,
    )
    check_models_fit(options, models=1)
    schedule, found = Schedule(**share._asdict()), dict[str, int]()
    if spans.epoch_length is None:
        batch = read_batch(files, limits, roles, options.wanted_columns())
    else:
        event_times = times.event_times(start_ms=spans.epoch_length, interval_ms=Fraction(0))
        whole, timestamps = read_timed_batch(files, limits, event_times, roles, options.wanted_columns())
        epochs = cut_by_time(timestamps, EpochClock(spans.epoch_length, spans.max_ahead))
        _tell_of_far_ahead(epochs.far_ahead, timestamps, spans.max_ahead)
        batch = whole.select(epochs.rows)
        schedule = schedule._replace(keep_order=True, ends=epochs.ends)
        found = {"epochs": len(epochs.ends) + 1, "late": epochs.late, "far_ahead": len(epochs.far_ahead)}
    run = evaluate(batch, options, schedule)
    if output.predictions is not None:
        output.predictions.write_text("".join(_lines_of(run)))
    if output.plot is not None:
        draw_learning_curve(run, output.plot)
    if output.as_json:
        say(json.dumps(run.facts() | found))
    else:
        _show(run, found)


def _lines_of(run: Run) -> Iterator[str]:
    """A line for each training example."""
    scores = run.scores
    if run.errors is None:
        yield from (f"{score!r}\n" for score in scores.predictions.tolist())
        return
    pairs = zip(scores.predictions.tolist(), scores.probabilities.tolist(), strict=True)
    yield from (f"{number:.0f} {probability!r}\n" for number, probability in pairs)


def _check(spans: _Spans, times: Times) -> None:
    """click.UsageError for options that contradict each other."""
    if spans.epoch_length is None:
        for option in _given("max_ahead", *Times._fields):
            raise click.UsageError(f"{option} is for --epoch-length, which cuts epochs by the examples' times")
        return
    for option in _given("epochs", "doubling", "seed"):
        raise click.UsageError(
            f"--epoch-length keeps the order of the files and cuts epochs by time: {option} does not apply"
        )
    times.check()
    if times.timestamp_field is None and times.interval is None:
        raise click.UsageError(
            "--epoch-length needs the examples' times: expected --timestamp-field or --interval, found neither"
        )


def _given(*names: str) -> list[str]:
    """Those of the options that were typed."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT
    ]


def _tell_of_far_ahead(rows: NDArray[np.int64], timestamps: NDArray[np.int64], max_ahead_ms: int) -> None:
    """Say on stderr that examples are left out, if any are."""
    if len(rows):
        say(
            f"stream-apple: {len(rows)} of {len(timestamps)} examples are left out, as a worker makes dead letters of "
            f"them: expected times at most {format_duration(max_ahead_ms)} ahead of those before, found first "
            f"{timestamps[rows[0]]} (ms since 1970) in example {rows[0] + 1}",
            err=True,
        )


def _show(run: Run, found: Mapping[str, int]) -> None:
    """Print what was learned from, the measures of the predictors side by side, and what to make of it."""
    facts = run.facts() | dict(found)
    table = Table(show_header=False, box=None)
    for name in ("method", "examples", "features_per_example", "parents", "seconds", *found):
        table.add_row(name.replace("_", " "), _shown(facts[name]))
    console = table_console()
    console.print(table)
    console.print(_side_by_side(run, facts))
    say(run.verdict())


def _side_by_side(run: Run, facts: Mapping[str, object]) -> Table:
    """A row for each measure that there is, a column for each predictor, and who is best by it."""
    columns = {"the mixture" if run.mixed else run.result.method: ""}
    if run.mixed:
        columns["apple alone"] = "apple_"
    if run.result.method != "linear":
        columns["linear"] = "linear_"
    table = Table("", *columns, "best constant", "best", box=box.SIMPLE_HEAD)
    for part in ("progressive", "test"):
        for measure in ("loss", "auc", "calibration_error", "error"):
            found = {name: facts.get(f"{prefix}{part}_{measure}") for name, prefix in columns.items()}
            if f"{part}_{measure}" == "progressive_loss":
                found["best constant"] = facts["best_constant_loss"]
            elif f"{part}_{measure}" == "progressive_error" and run.errors is not None:
                found["best constant"] = run.errors.best_constant_error
            known = {name: value for name, value in found.items() if isinstance(value, float)}
            if known:
                label = f"{part} {measure.replace('auc', 'AUC').replace('_', ' ')}"
                cells = (_shown(found.get(name)) if name in found else "" for name in (*columns, "best constant"))
                table.add_row(label, *cells, _best(known, -1 if measure == "auc" else 1))
    return table


def _best(known: Mapping[str, float], sign: int) -> str:
    """Whose value is least, or greatest if `sign` is -1; nobody's, where the second one is as good."""
    if len(known) == 1:
        return ""
    (first, best), (_, second), *_ = sorted(known.items(), key=lambda item: sign * item[1])
    return first if abs(second - best) > ALIKE * abs(second) else "alike"


def _shown(value: object) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
