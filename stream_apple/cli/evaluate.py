"""`stream-apple evaluate`: the same learner without a stream."""

import json
from pathlib import Path
from typing import get_args

import click
from rich.console import Console
from rich.table import Table

from stream_apple.config import load
from stream_apple.core.decode import Limits
from stream_apple.core.learner import Loss, Method, Options
from stream_apple.study.dataset import read_batch
from stream_apple.study.evaluation import Plan, Run, evaluate
from stream_apple.study.plot import draw


@click.command(name="evaluate")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--method", type=click.Choice(get_args(Method)), default="apple", show_default=True, help="What the features are."
)
@click.option(
    "--loss", type=click.Choice(get_args(Loss)), default="squared", show_default=True, help="What is minimised."
)
@click.option("--bits", type=click.IntRange(8, 30), default=18, show_default=True, help="The table has 2^bits slots.")
@click.option("--alpha", type=click.FloatRange(0, 4), default=1.0, show_default=True, help="s^alpha parents an epoch.")
@click.option(
    "--learning-rate",
    type=click.FloatRange(0, min_open=True),
    default=0.5,
    show_default=True,
    help="Of the adaptive update.",
)
@click.option("--epochs", type=click.IntRange(1), default=6, show_default=True, help="Equally long epochs in the pass.")
@click.option("--doubling", type=click.IntRange(1), help="Instead: epochs end after DOUBLING * 2^k examples.")
@click.option(
    "--test-fraction",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.2,
    show_default=True,
    help="Share that is only scored.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the shuffle.")
@click.option("--no-shuffle", is_flag=True, help="Keep the order of the files.")
@click.option("--predictions", type=click.Path(path_type=Path, dir_okay=False), help="Write progressive predictions.")
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw the progressive loss (extra: study)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    files: tuple[Path, ...],
    method: Method,
    loss: Loss,
    bits: int,
    alpha: float,
    learning_rate: float,
    epochs: int,
    doubling: int | None,
    test_fraction: float,
    seed: int,
    *,
    no_shuffle: bool,
    predictions: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Learn from FILES in one pass and print progressive and test loss.

    FILES hold svmlight, Vowpal Wabbit text, JSON lines or msgpack, gzipped or not, told apart by content.
    PREDICTIONS gets one line for each training example, in the order learned: the score given before learning it.
    """
    limits = load(None, {}).limits
    batch = read_batch(
        files,
        Limits(
            max_features=limits.max_features_per_example - 1,
            max_record_bytes=1 << 30,
            max_weight=limits.max_weight,
            min_label=limits.min_label,
            max_label=limits.max_label,
            binary=loss == "logistic",
        ),
    )
    options = Options(method, loss, bits, alpha, learning_rate, limits.max_features_per_example)
    run = evaluate(batch, options, Plan(epochs, doubling or 0, test_fraction, None if no_shuffle else seed))
    if predictions is not None:
        predictions.write_text("".join(f"{score!r}\n" for score in run.scores.predictions.tolist()))
    if plot is not None:
        draw(run, plot)
    if as_json:
        click.echo(json.dumps(run.result._asdict()))
    else:
        _show(run)


def _show(run: Run) -> None:
    """The result as a table."""
    table = Table(show_header=False, box=None)
    for name, value in run.result._asdict().items():
        shown = "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
        table.add_row(name.replace("_", " "), shown)
    Console().print(table)
