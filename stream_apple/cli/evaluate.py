"""`stream-apple evaluate`: learns from files without Kafka, and prints losses."""

import json
from collections.abc import Callable, Iterator
from copy import copy
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from stream_apple.cli.advice import (
    explain_fields,
    tell_of_absent_namespaces,
    tell_of_files,
    tell_of_short_epochs,
    tell_of_times,
    tell_of_weights,
)
from stream_apple.cli.options.example_times import Times, times_options
from stream_apple.cli.options.input_mapping import InputOptions, input_options
from stream_apple.cli.options.learner import LearnerChoice, learner_options
from stream_apple.cli.options.parameters import (
    OutputFile,
    WholeNumber,
    duration,
    gathered,
    given_options,
    refuse_writing_over,
)
from stream_apple.cli.options.shards import ShardChoice, shard_options
from stream_apple.cli.output import say, utc_text
from stream_apple.config import Config, EpochSettings, load
from stream_apple.config.duration import format_duration
from stream_apple.config.memory import check_models_fit
from stream_apple.config.schema import EPOCH_LENGTH, MAX_AHEAD
from stream_apple.core.batch import Batch, Limits
from stream_apple.offline.late_labels import known_after_examples, known_after_time
from stream_apple.offline.plot import picture_file
from stream_apple.offline.schedule import Schedule
from stream_apple.records.message.example import Example

if TYPE_CHECKING:
    from stream_apple.learners.port import LearnerOptions
    from stream_apple.offline.event_epochs import Dealt
    from stream_apple.offline.sharding.sharded import Sharding, Together

_BY_COUNT = ("epochs", "doubling", "seed")
"""Options that contradict epochs of event time."""

_NO_EPOCHS = (
    "--timestamp {} --epoch-length {length} learns examples in the epochs of their times, --times {} makes features of "
    "hour, weekday and month, and --ignore {} leaves the field out"
)
_ORDER_LOST = "; the examples are shuffled now, and --no-shuffle keeps the order of the files"


class _Spans(NamedTuple):
    """The options on epochs of event time, in milliseconds, as the configuration has them in [epochs]."""

    epoch_length: int | None
    max_ahead: int


class _Delay(NamedTuple):
    """The options on labels that come after their features: in milliseconds, or in examples; None if not given."""

    label_delay: int | None
    label_delay_examples: int | None


class _Output(NamedTuple):
    """The options on the output: files for predictions and the plot, and whether the result is printed as JSON."""

    predictions: Path | None
    plot: Path | None
    as_json: bool


def _show_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        shown = copy(context.command)
        shown.params = [copy(parameter) for parameter in shown.params]
        for parameter in shown.params:
            if isinstance(parameter, click.Option):
                parameter.hidden = False
        say(shown.get_help(context))
        context.exit()


@click.command(name="evaluate", context_settings={"max_content_width": 100})
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="TOML file of workers: defaults are its [learner] and [input], and with input.timestamp its [epochs].",
)
@learner_options
@click.option("--epochs", type=WholeNumber(1), default=6, show_default=True, help="How many equal epochs the pass has.")
@click.option("--doubling", type=WholeNumber(1), help="Epochs end after DOUBLING * 2^k examples.")
@click.option(
    "--epoch-length",
    callback=duration(EPOCH_LENGTH.low, most=EPOCH_LENGTH.high),
    metavar="DURATION",
    help="Epochs are spans of the examples' times, as a worker's are, such as 1h. Keeps the order of the files.",
)
@click.option(
    "--max-ahead",
    callback=duration(MAX_AHEAD.low, most=MAX_AHEAD.high),
    default=format_duration(EpochSettings().max_ahead),
    show_default=True,
    metavar="DURATION",
    help="With --epoch-length: leave out examples whose time is further ahead of those before.",
)
@click.option(
    "--label-delay",
    callback=duration(least=0),
    metavar="DURATION",
    help="With --epoch-length: each label is known this long after its example, such as 8h.",
)
@click.option(
    "--label-delay-examples",
    type=WholeNumber(1),
    metavar="N",
    hidden=True,
    help="Each label is known when the N-th example after its own comes; 1 is no delay.",
)
@shard_options
@input_options
@click.option("--explain-input", is_flag=True, help="Print what each field of the first records becomes, and exit.")
@times_options(start="the beginning of an epoch")
@click.option(
    "--test-fraction",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.2,
    show_default=True,
    help="Share of the examples that are only scored.",
)
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of the shuffle.")
@click.option("--no-shuffle", "keep_order", is_flag=True, help="Keep the order of the files.")
@click.option("--predictions", type=OutputFile(), help="Write progressive predictions.")
@click.option("--plot", type=OutputFile(), help="Draw the progressive loss (extra: plot).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--help-all",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show this message with the options that few need, and exit.",
)
@gathered(
    learner=LearnerChoice,
    schedule=Schedule,
    spans=_Spans,
    delay=_Delay,
    times=Times,
    output=_Output,
    fields=InputOptions,
    shards=ShardChoice,
)
def command(
    files: tuple[Path, ...],
    path: Path | None,
    learner: LearnerChoice,
    schedule: Schedule,
    spans: _Spans,
    delay: _Delay,
    times: Times,
    output: _Output,
    fields: InputOptions,
    shards: ShardChoice,
    *,
    explain_input: bool,
) -> None:
    """Learn from FILES in one pass and print progressive and test loss, with AUC and calibration where
    there are two labels, and with the share of wrong classes where there are more (--loss softmax).

    FILES hold svmlight, Vowpal Wabbit text, JSON lines, msgpack, CSV or Parquet, detected by content; all but Parquet
    may be gzipped. PREDICTIONS gets a line for each training example, in their order: the score before learning it, or
    the class and its probability.

    With --epoch-length, epochs are those of a worker: the times come from --timestamp or from --interval,
    by the rules of `stream-apple produce`.

    With --shards, several learners get the examples in turn, as workers' partitions would, and become one model at
    the end of each epoch.
    """
    config = load(None, {}) if path is None else load(path)
    shape = fields.shape(config.input)
    if explain_input:
        explain_fields(files, shape)
        return
    timestamp = shape.mapping.timestamp
    configured = path is not None and config.input.timestamp == timestamp != ""
    if configured and not given_options("epoch_length", *_BY_COUNT):
        spans = _Spans(config.epochs.length, config.epochs.max_ahead)
    _check(spans, times, timestamp)
    _check_delay(delay, spans, schedule, shards)
    picture = None if output.plot is None else picture_file(output.plot)
    refuse_writing_over({"--predictions": output.predictions, "--plot": picture}, (*files, path))
    shards.check()
    options = learner.options(config.learner, config.limits.max_features_per_example, to_merge=shards.to_merge)
    # These import numba, for which `--help` and a mistyped option would wait.
    from stream_apple.cli.evaluated import show_run, write_run
    from stream_apple.offline.dataset import read_batch
    from stream_apple.offline.evaluation import evaluate
    from stream_apple.offline.sharding.sharded import evaluate_together

    limits = _limits(config, options, of_workers=path is not None)
    sharding = _sharding(shards, options)
    check_models_fit(options, models=1 if sharding is None else sharding.models)
    found = dict[str, object]()
    dealt: Dealt | None = None
    known: NDArray[np.int64] | None = None
    read = partial(read_batch, files, limits, shape, options.wanted_columns())
    if spans.epoch_length is None:
        batch = read()
        tell_of_times(shape, _NO_EPOCHS if schedule.keep_order else _NO_EPOCHS + _ORDER_LOST)
    else:
        event_times = times.event_times(start_ms=spans.epoch_length, interval_ms=Fraction(0))
        learners = 1 if sharding is None else sharding.shards
        batch, timestamps, dealt = _by_time(partial(read, event_times), spans.epoch_length, spans.max_ahead, learners)
        schedule = schedule._replace(keep_order=True, ends=dealt.ends if sharding is None else None)
        found = {"epochs": dealt.most_epochs, "late": dealt.late, "far_ahead": len(dealt.far_ahead)}
        if delay.label_delay is not None:
            known = known_after_time(timestamps, delay.label_delay)
    tell_of_files(shape)
    tell_of_weights(batch.weights)
    if "spaces" in options.wanted_columns():
        tell_of_absent_namespaces(options, batch.spaces)
    if delay.label_delay_examples is not None:
        known = known_after_examples(len(batch.labels), delay.label_delay_examples)
    if sharding is None:
        run = evaluate(batch, options, schedule, known)
    else:
        together = evaluate_together(batch, options, schedule, sharding, dealt)
        run = together.run
        found |= _found(together, shards)
    write_run(run, output.predictions, picture)
    if output.as_json:
        say(json.dumps(run.facts() | found))
    else:
        show_run(run, found)


def _limits(config: Config, options: "LearnerOptions", *, of_workers: bool) -> Limits:
    """Return the limits of examples: the configuration's, but a file has no bytes of records, and no n-grams yet.

    of_workers  examples of more features than workers take are refused; else only those that can't be learned whole
    """
    configured = config.limits
    learned = (configured.max_features_per_example - 1) // options.longest_ngram
    return Limits(
        max_features=min(configured.max_features, learned) if of_workers else learned,
        max_record_bytes=1 << 30,
        max_weight=configured.max_weight,
        min_label=configured.min_label,
        max_label=configured.max_label,
        binary=options.objective.binary,
        classes=options.classes,
    )


def _sharding(choice: ShardChoice, options: "LearnerOptions") -> "Sharding | None":
    """Return how several learners work together, None for one; ConfigurationError if such models can't be merged."""
    if choice.shards is None:
        return None
    from stream_apple.learners.merging_port import check_mergeable
    from stream_apple.offline.sharding.lockstep import Exchange
    from stream_apple.offline.sharding.sharded import Sharding

    if choice.merge == "off":
        return Sharding(choice.shards, None)
    check_mergeable(options)
    return Sharding(choice.shards, Exchange(choice.merge_parents, choice.merge_every))


def _by_time(
    read: Callable[..., Batch], epoch_length: int, max_ahead: int, learners: int
) -> "tuple[Batch, NDArray[np.int64], Dealt]":
    """Return the examples that are not too far ahead, their times in milliseconds, and what each learner gets.

    read  reads all examples, and takes `watched` as `read_batch` does
    """
    from stream_apple.offline.event_epochs import deal_by_time

    times_ms: list[int] = []

    def noted(examples: Iterator[Example]) -> Iterator[Example]:
        for example in examples:
            times_ms.append(example.timestamp_ms or 0)
            yield example

    whole = read(watched=noted)
    timestamps = np.array(times_ms, np.int64)
    dealt = deal_by_time(timestamps, epoch_length, max_ahead, learners)
    _tell_of_far_ahead(dealt.far_ahead, timestamps, max_ahead)
    tell_of_short_epochs(epoch_length, len(dealt.rows) // learners, dealt.most_epochs, "--epoch-length {}")
    return whole.select(dealt.rows), timestamps[dealt.rows], dealt


def _found(together: "Together", choice: ShardChoice) -> dict[str, object]:
    """Return the facts to report on several learners."""
    return {"shards": choice.shards, "merge": choice.merge, "merges": len(together.lockstep.rosters)}


def _check(spans: _Spans, times: Times, timestamp: str) -> None:
    """Raise click.UsageError for options that contradict each other."""
    if spans.epoch_length is None:
        for option in given_options("max_ahead", *Times._fields):
            raise click.UsageError(f"{option} is for --epoch-length, which cuts epochs by the examples' times")
        return
    for option in given_options(*_BY_COUNT):
        raise click.UsageError(
            f"--epoch-length keeps the order of the files and cuts epochs by time: {option} does not apply"
        )
    times.check(timestamp)
    if not timestamp and times.interval is None:
        raise click.UsageError(
            "--epoch-length needs the examples' times: expected --timestamp or --interval, found neither"
        )


def _check_delay(delay: _Delay, spans: _Spans, schedule: Schedule, shards: ShardChoice) -> None:
    """Raise click.UsageError for options that contradict each other."""
    if delay == _Delay(None, None):
        return
    if None not in delay:
        raise click.UsageError("--label-delay and --label-delay-examples say the same: expected one of them")
    if shards.shards is not None:
        raise click.UsageError("--shards learn each label at once: --label-delay does not apply")
    if delay.label_delay is not None and spans.epoch_length is None:
        raise click.UsageError("--label-delay needs the examples' times: expected --epoch-length, found none")
    if delay.label_delay_examples is not None and spans.epoch_length is None and not schedule.keep_order:
        raise click.UsageError("--label-delay-examples goes by the order of the files: expected --no-shuffle")


def _tell_of_far_ahead(rows: NDArray[np.int64], timestamps: NDArray[np.int64], max_ahead_ms: int) -> None:
    """Say on stderr that examples are left out, if any are."""
    if len(rows):
        say(
            f"stream-apple: {len(rows)} of {len(timestamps)} examples are left out, as a worker makes dead letters of "
            f"them: expected times at most {format_duration(max_ahead_ms)} (--max-ahead, epochs.max_ahead) ahead of "
            f"those before, found first {utc_text(int(timestamps[rows[0]]), 'minutes')} UTC in example {rows[0] + 1}",
            err=True,
        )
