"""`stream-apple inspect`: shows by name what a model has found."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stream_apple.cli.options.common import AS_JSON, PARTITIONS
from stream_apple.cli.options.parameters import OutputFile, refuse_writing_over
from stream_apple.cli.output import number_or_dash, printable_facts, say, table_console
from stream_apple.config import Config, load
from stream_apple.errors import ConfigurationError
from stream_apple.monitoring.bounds import MOST_TOP

_Facts = dict[str, Any]
_BAR = 12
_LOST = {"evictions": "evicted", "refusals": "refused"}
_SPANS = {"start": "since the start", "epoch": "this epoch", "last_epoch": "last epoch", "recent": "recent"}


@click.command()
@click.option("--url", help="Address of a running worker, such as http://localhost:9400.")
@click.option("--config", "path", type=click.Path(path_type=Path), help="TOML file, the workers' own; for Kafka.")
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A model saved with --save, or merged.",
)
@PARTITIONS
@click.option("--top", type=click.IntRange(1, MOST_TOP), default=20, show_default=True, help="How many of each kind.")
@click.option(
    "--save",
    "target",
    type=OutputFile(),
    help="Write the model of one --partition in Kafka to this file.",
)
@AS_JSON
def command(
    url: str | None,
    path: Path | None,
    file: Path | None,
    partitions: tuple[int, ...],
    top: int,
    target: Path | None,
    *,
    as_json: bool,
) -> None:
    """Show what a model has found: its heaviest monomials by name, how full its table is, and how well it predicts.

    The models come from the newest snapshots in Kafka, found as a worker finds them; before there is one, from the
    worker of this configuration that runs on this machine; or from any running worker (--url), or a file (--file). A
    worker learns names from a few live examples a second; a factor without a name yet is shown as `?` and its key.

    Exits with 69 if nothing answers, 73 if a snapshot or file is damaged, 78 if there is no such model.
    """
    if sum(source is not None for source in (url, path, file)) > 1:
        raise click.UsageError("name one source: --url, --file, or Kafka with or without --config")
    if target is not None and (url is not None or file is not None or len(partitions) != 1):
        raise click.UsageError("--save takes one --partition from Kafka: leave --url and --file out")
    if file is not None and partitions:
        raise click.UsageError("--file holds one partition: leave --partition out")
    refuse_writing_over({"--save": target}, [path])
    # These import numba, for which `--help` and a mistyped option would wait.
    from stream_apple.app.inspect import from_file, from_worker

    models: list[_Facts] = []
    if url is not None:
        models.extend(from_worker(url, partitions, top))
    elif file is not None:
        models.append(from_file(file, top))
    else:
        models.extend(_from_kafka(load(path), partitions, top, target))
    if as_json:
        say(json.dumps({"models": models}))
        return
    console = table_console()
    for facts in models:
        try:
            _show(console, printable_facts(facts))
        except KeyError as absent:
            raise ConfigurationError(
                f"expected a view of a model with {absent}, found one without: the worker has another version than "
                f"this command; use that version, or --json"
            ) from absent


def _from_kafka(config: Config, partitions: tuple[int, ...], top: int, target: Path | None) -> Iterator[_Facts]:
    """Yield views of the newest snapshots, or before the first of the running worker's models; save them if asked."""
    from stream_apple.app.inspect import NoSnapshotError, from_own_worker, from_topic, to_file

    try:
        for found in from_topic(config, partitions, top):
            yield found.facts(top)
            if target is not None:
                to_file(target, config, found)
    except NoSnapshotError as error:
        if target is not None:
            raise
        yield from from_own_worker(config, partitions, top, error)
        say("stream-apple: there is no snapshot yet: this is what the running worker has now", err=True)


def _show(console: Console, facts: _Facts) -> None:
    # Anyone may have chosen the names in records, so they are never interpreted as markup.
    options = facts["options"]
    console.print(Text(f"{facts['topic']}-{facts['partition']}", "bold"), Text(f"model {facts['lineage']['model']}"))
    features = number_or_dash(facts["features_per_example"], ".1f")
    for line in (
        f"{facts['kind']}, {options['loss']} loss, {options['bits']} bits",
        f"{facts['examples']:,} examples learned, up to offset {facts['at']:,}; {features} features an example",
        *_fill(facts["gauges"]),
        *facts["notes"],
        _digest(facts),
        *_merging(**facts.get("merging") or {}),
        *_merged_from(facts),
        *(f"records from {gap['start']:,} to {gap['stop']:,} left out" for gap in facts["lineage"]["gaps"]),
        *(f"the record at offset {offset:,} skipped" for offset in facts["lineage"]["skips"]),
    ):
        console.print(Text(f"  {line}"))
    console.print(_losses(facts["losses"], facts["quality"]))
    if facts["asked"]["losses"]:
        console.print(_asked(**facts["asked"]))
    if facts["mixture"]["weights"]:
        console.print(_mixture(**facts["mixture"]))
    console.print(_degrees(facts["degrees"]))
    console.print(_monomials("Heaviest monomials", facts["top"]))
    if facts["products"] and facts["products"] != facts["top"]:
        console.print(_monomials("Heaviest products", facts["products"]))
    for each in facts["tables"]:
        console.print(_shown(**each))
    if facts["classes"]:
        console.print(_classes(facts["classes"]))
    if facts["named"] < 1:
        console.print(Text(f"  {facts['named']:.0%} of the features above have been seen by name"))


def _fill(gauges: dict[str, float]) -> Iterator[str]:
    """Yield a line on how full the table is."""
    slots, occupied = (int(gauges.get(f"table_{name}", 0)) for name in ("slots", "occupied_slots"))
    if slots:
        lost = [(int(gauges[f"table_{name}"]), of) for name, of in _LOST.items() if f"table_{name}" in gauges]
        more = ", ".join(f"{count:,} {of}" for count, of in lost)
        yield f"{occupied:,} of {slots:,} slots ({occupied / slots:.1%}){more and f'; {more}'}"


def _merged_from(facts: _Facts) -> Iterator[str]:
    """Yield lines on what a model in a file was merged from, if it was."""
    for each in facts.get("merged_from", ()):
        yield (
            f"merged from {each['topic']}-{each['partition']} of group {each['group']} at offset {each['at']:,}: "
            f"model {each['model']}, digest {each['digest']}"
        )


def _digest(facts: _Facts) -> str:
    snapshot = facts["snapshot"]
    ended = (
        f"digest {facts['digest']} at the end of epoch {facts['ended_epoch']}"
        if facts["digest"]
        else "no epoch has ended"
    )
    saved = f"snapshot {snapshot['digest']} at offset {snapshot['at']:,}" if snapshot else "no snapshot"
    if facts.get("merged_from") and snapshot:
        saved = f"merged, {snapshot['digest']}"
    return f"epoch {facts['epoch']}; {ended}; {saved}"


def _merging(boundary: _Facts | None = None, merge: _Facts | None = None) -> Iterator[str]:
    """Yield lines on the end of the round that the partition is at, and on the newest merge."""
    if boundary is not None:
        yield f"{boundary['state']} at the end of round {boundary['round']}, at offset {boundary['at']:,}"
    if merge is not None:
        named = ", ".join(map(str, merge["roster"]))
        without = ", ".join(f"{partition} ({reason})" for partition, reason in merge["excluded"].items())
        yield f"newest merge: round {merge['round']}, of partitions {named}{f'; not {without}' if without else ''}"


def _table(title: str, *columns: str, numbers: int) -> Table:
    """Return a table whose first column is text, whose next `numbers` are numbers, and whose others are text again."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if 1 <= index <= numbers else "left", overflow="fold")
    return table


def _losses(losses: dict[str, _Facts], quality: dict[str, _Facts]) -> Table:
    """Return a table of losses by span; with two labels, also of AUC and calibration error of published scores."""
    table = _table(
        "Progressive loss", "", "published", "expanded", "linear", "best constant", "AUC", "calib. error", numbers=6
    )
    for span, name in _SPANS.items():
        report, published = losses[span], quality[span]["published"]
        means = [report[of] for of in ("loss", "expanded_loss", "linear_loss", "best_constant_loss")]
        means += [published[of] for of in ("auc", "calibration_error")]
        table.add_row(name, *(number_or_dash(mean, "z.4f") for mean in means))
    return table


def _asked(examples: dict[str, int], losses: dict[str, dict[str, float]]) -> Table:
    """Return a table of the losses of scores that were given before their labels came."""
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in examples.items())
    table = _table(f"Loss when asked ({counts})", "", "published", "linear", "best constant", numbers=3)
    for span, name in _SPANS.items():
        table.add_row(name, *(number_or_dash(losses[span][of], "z.4f") for of in ("published", "linear", "constant")))
    return table


def _mixture(weights: dict[str, float], shares: dict[str, float]) -> Table:
    """Return a table of each predictor's weight in the published score, and of the shares that some of them have."""
    table = _table("What is published", "predictor", "weight", "share", numbers=2)
    for name in dict.fromkeys((*weights, *shares)):
        table.add_row(
            name, *(number_or_dash(numbers.get(name), form) for numbers, form in ((weights, "+z.4f"), (shares, ".1%")))
        )
    return table


def _degrees(degrees: list[_Facts]) -> Table:
    table = _table("By degree", "degree", "monomials", "parents", "", numbers=2)
    most = max((each["monomials"] for each in degrees), default=1)
    for each in degrees:
        bar = Text("\u2588" * max(1, round(_BAR * each["monomials"] / most)), "green")
        table.add_row(str(each["degree"]), f"{each['monomials']:,}", f"{each['parents']:,}", bar)
    return table


def _monomials(title: str, monomials: list[_Facts]) -> Table:
    """Return a table of monomials, with a column for each predictor whose weights they have."""
    predictors = list(dict.fromkeys(name for each in monomials for name in each["weights"]))
    table = _table(title, "monomial", "weight", "salience", *predictors, "", numbers=2 + len(predictors))
    for each in monomials:
        table.add_row(
            Text(each["name"]),
            Text(f"{each['weight']:+z.4f}", "green" if each["weight"] >= 0 else "red"),
            f"{each['salience']:z.4f}",
            *(f"{each['weights'][name]:+z.4f}" if each["degree"] == 1 else "" for name in predictors),
            Text(each["mark"], "dim"),
        )
    return table


def _shown(title: str, columns: list[str], rows: list[list[Any]], note: str) -> Table:
    """Return a table of the learner's own."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, caption=note)
    table.caption_justify = "left"
    for column, *cells in zip(columns, *rows, strict=True):
        numbers = all(isinstance(each, int | float) for each in cells)
        table.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(each)) for each in row))
    return table


def _cell(cell: str | float | list[float] | None) -> str:
    if cell is None:
        return ""
    if isinstance(cell, list | tuple):
        return "  ".join(f"{each:z.4g}" for each in cell)
    if isinstance(cell, str):
        return cell
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:z.4f}"


def _classes(classes: list[_Facts]) -> Table:
    """Return a table of the classes in `classes`, the most frequent ones: weights and errors."""
    table = _table("Classes", "class", "weight", "error", "recent weight", "recent error", numbers=4)
    for each in classes:
        spans = [
            number_or_dash(each[span][of], form)
            for span in ("start", "recent")
            for of, form in (("weight", ",.0f"), ("error", "z.4f"))
        ]
        table.add_row(str(each["number"]), *spans)
    return table
