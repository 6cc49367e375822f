"""`python -m study`: compare all methods on a folder of data sets, from a checkout of the repository."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from stream_apple.cli.options.parameters import OutputFolder, WholeNumber, gathered, parsed_by, refuse_writing_over
from stream_apple.cli.output import PrintableConsole, say
from stream_apple.cli.progress import PlainLines
from stream_apple.errors import ConfigurationError, StreamAppleError
from stream_apple.learners.apple.options import ALPHA, BITS, LEARNING_RATE, NumberBounds, Options
from stream_apple.signals import Signals
from study.data_sets import DataSet, FoundSets, find_data_sets
from study.experiments.experiment import Inquiry
from study.experiments.registry import EXPERIMENTS, load_experiment, sets_of
from study.methods import METHODS, VOWPAL_CHOICES, VOWPAL_SETTINGS, installed_version
from study.runs.journal import Journal
from study.settings import ALPHAS, GRID, StudySettings

if TYPE_CHECKING:
    from study.report.paper import PaperRow
    from study.runs.campaign import Campaign, PhaseProgress

EXPANSION = "expansion"
_PACE_OVER_S = 600.0  # the time left is estimated from the pace of so many seconds, as runs differ in length


class _StudyPaths(NamedTuple):
    """The options that say which files are read, where results go, and how many processes may run."""

    folder: Path
    manifest: Path | None
    paper: Path | None
    sets: tuple[str, ...] | None
    out: Path
    jobs: int


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


def _methods(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    if text is None:
        installed = installed_version("vowpalwabbit") is not None
        return tuple(name for name, method in METHODS.items() if method.default and (installed or not method.is_vowpal))
    names = _words(text)
    if VOWPAL_SETTINGS in names:
        names = (*(name for name in names if name != VOWPAL_SETTINGS), *VOWPAL_CHOICES)
    if unknown := [name for name in names if name not in METHODS]:
        known = ", ".join([*METHODS, VOWPAL_SETTINGS])
        raise click.BadParameter(f"expected some of {known}, found {', '.join(unknown)}")
    if asked := [name for name in names if METHODS[name].is_vowpal and not installed_version("vowpalwabbit")]:
        raise click.BadParameter(
            f"expected Vowpal Wabbit to be installed for {', '.join(asked)}, found none: "
            "pip install --editable '.[study]'"
        )
    # All tables and figures have the order of METHODS, with the baselines first.
    return tuple(name for name in METHODS if name in names)


def _within(bounds: NumberBounds, text: str) -> tuple[float, ...]:
    try:
        numbers = sorted({float(word) for word in text.split(",")})
    except ValueError:
        raise ValueError(f"expected numbers separated by commas, found {text!r}") from None
    if wrong := [number for number in numbers if not bounds.hold(number)]:
        raise ValueError(f"expected {bounds}, found {wrong[0]:g}")
    return tuple(numbers)


def _rates(text: str) -> tuple[float, ...]:
    known = {"tuned": GRID, "default": (Options().learning_rate or 0.0,)}
    return known[text] if text in known else _within(LEARNING_RATE, text)


def _epochs(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ValueError(f"expected whole numbers above 0, separated by commas, found {text!r}")
    return tuple(dict.fromkeys(map(int, words)))


_COMMON = frozenset({"folder", "experiment", "sets", "manifest", "out", "seeds", "rows"})
"""Parameters that every experiment has."""
_FILE = click.Path(path_type=Path, dir_okay=False)


_EPILOG = "\b\n" + "\n".join(
    [
        "Experiments:",
        f"  {EXPANSION}  methods of the paper, as above",
        *(f"  {name}  {shows}" for name, shows in EXPERIMENTS.items()),
    ]
)


class _StudyCommand(click.Command):
    """A command that ends with one message on standard error, and an exit code, for an error that a user can act on."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except StreamAppleError as error:
            say(f"study: {error}", err=True)
            sys.exit(error.exit_code)


@click.command(
    cls=_StudyCommand, name="study", epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--experiment", type=click.Choice([EXPANSION, *EXPERIMENTS]), default=EXPANSION, show_default=True,
    help="What to compare; see below.",
)  # fmt: skip
@click.option(
    "--methods", callback=_methods, metavar="NAMES",
    help=f"Methods, separated by commas; {VOWPAL_SETTINGS} stands for {', '.join(VOWPAL_CHOICES)}.  "
    f"[default: {', '.join(n for n, m in METHODS.items() if m.default)}]",
)  # fmt: skip
@click.option("--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of random splits.")
@click.option("--rows", type=WholeNumber(10), default=50_000, show_default=True, help="At most so many rows of a set.")
@click.option(
    "--rates", callback=parsed_by(_rates), default="tuned", show_default=True, metavar="tuned|default|NUMBERS",
    help="Learning rates to choose from.",
)  # fmt: skip
@click.option(
    "--alphas", callback=parsed_by(partial(_within, ALPHA)), default=",".join(f"{alpha:g}" for alpha in ALPHAS),
    show_default=True, metavar="NUMBERS", help="Exponents of methods that grow.",
)  # fmt: skip
@click.option(
    "--epochs", callback=parsed_by(_epochs), default="6", show_default=True, metavar="NUMBERS",
    help="Numbers of equal epochs to compare; the tables show the first.",
)  # fmt: skip
@click.option(
    "--bits", type=click.IntRange(BITS.low, BITS.high), help="Bits of all weight tables.  [default: 18, cubic 24]"
)
@click.option(
    "--loss",
    type=click.Choice(["squared", "logistic"]),
    default=Options.loss,
    show_default=True,
    help="The loss to minimize.",
)
@click.option("--timing/--no-timing", default=True, show_default=True, help="Measure seconds, one run at a time.")
@click.option("--manifest", type=_FILE, help="Description of the data sets.  [default: manifest.toml in DIR]")
@click.option("--paper", type=_FILE, help="The paper's results, shown next to these.")
@click.option("--sets", callback=parsed_by(_words), metavar="NAMES", help="Only these data sets, separated by commas.")
@click.option(
    "--out", type=OutputFolder(), default=Path("build/study"), show_default=True,
    help="Folder for runs, tables, and figures.",
)  # fmt: skip
@click.option(
    "--jobs", type=WholeNumber(1), default=os.cpu_count() or 1, show_default="as many as cores", help="Processes."
)
@gathered(paths=_StudyPaths, settings=StudySettings)
@click.pass_context
def command(context: click.Context, experiment: str, paths: _StudyPaths, settings: StudySettings) -> None:
    """Compare linear, quadratic, cubic, apple, and Vowpal Wabbit on the data sets in DIR, as the paper does.

    Each file of DIR is a set. Finished runs are kept in OUT, so the same command continues where it was stopped. The
    results are OUT/summary.md, figures, and tables for programs. Each other experiment writes to a folder of OUT with
    its name.
    """
    refuse_writing_over({"--out": paths.out}, [paths.folder])
    if experiment != EXPANSION:
        _refuse_options_of_the_expansion(context, experiment)
        _experiment(experiment, paths, settings)
        return
    # These import numba, for which `--help` and a mistyped option would wait.
    from study.report.paper import read_paper
    from study.report.summary import write_report

    # All faults are found before hours of learning.
    found = find_data_sets(paths.folder, paths.manifest)
    data_sets = _wanted(found, paths.sets)
    paper = {} if paths.paper is None else read_paper(paths.paper)
    _know(paper, data_sets)
    notes = [] if paths.sets is not None else _absent(found, paths.folder)
    if installed_version("vowpalwabbit") is None:
        notes.append("Vowpal Wabbit is not installed, so it is not compared: pip install --editable '.[study]'.")
    _tell(notes)
    with Journal(paths.out / "runs.jsonl") as journal, Signals() as signals:
        with _shown() as show:
            campaign = _run(data_sets, settings, paths, journal, signals, show)
        if signals.stopping():
            kept = len(journal.records)
            say(f"stopped; {kept:,} finished runs are kept: the same command continues", err=True)
            sys.exit(signals.exit_code)
        say(str(write_report(campaign, paper, notes, paths.out)))


def _refuse_options_of_the_expansion(context: click.Context, experiment: str) -> None:
    """Raise click.UsageError for a given option that the experiment does not use."""
    for parameter in context.command.get_params(context):
        name = parameter.name or ""
        if name in _COMMON or context.get_parameter_source(name) in {None, click.core.ParameterSource.DEFAULT}:
            continue
        if isinstance(parameter, click.Option) and not parameter.is_eager:
            raise click.UsageError(
                f"{parameter.opts[0]}: expected only with --experiment {EXPANSION}, found --experiment {experiment}"
            )


def _experiment(name: str, paths: _StudyPaths, settings: StudySettings) -> None:
    """Run an experiment, and write its findings as they come, until a signal comes."""
    from study.experiments.report import FindingReport
    from study.runs.campaign import PhaseProgress

    experiment = load_experiment(name)
    found = find_data_sets(paths.folder, paths.manifest)
    wanted = {each.name: each for each in _wanted(found, paths.sets)}
    chosen, notes = wanted, list[str]()
    if paths.sets is None:
        chosen = sets_of(experiment, wanted)
        meant = [name for name in found.absent if name in experiment.sets or not experiment.sets]
        notes = _absent(found._replace(absent=meant), paths.folder)
    _tell(notes)
    out = paths.out / name
    out.mkdir(parents=True, exist_ok=True)
    heading = f"{name}: {EXPERIMENTS[name]}"
    rows = f"Seeds: {settings.seeds}; at most {settings.rows:,} rows of a set."
    report = FindingReport(out, heading, [rows, *notes])
    page = None
    with Signals() as signals:
        with _shown() as show:

            def tell(phase: str, done: float, total: float) -> None:
                show(PhaseProgress(phase, done, total, round(total - done)))

            inquiry = Inquiry(chosen, out, settings.seeds, settings.rows, tell)
            for finding in signals.until_first(experiment.run(inquiry)):
                page = report.add(finding)
        if signals.stopping():
            kept = "nothing is written" if page is None else f"what was found is in {page}"
            say(f"stopped; {kept}", err=True)
            sys.exit(signals.exit_code)
    if page is not None:
        say(str(page))


def _run(
    data_sets: list[DataSet],
    settings: StudySettings,
    paths: _StudyPaths,
    journal: Journal,
    signals: Signals,
    show: Callable[["PhaseProgress"], None],
) -> "Campaign":
    """Read all sets, and do all runs, until a signal comes."""
    from study.runs.campaign import Campaign, PhaseProgress, prepare_all

    sets = []
    for facts in signals.until_first(prepare_all(data_sets, settings, paths.out, paths.jobs)):
        sets.append(facts)
        show(PhaseProgress("reading sets", len(sets), len(data_sets), len(data_sets) - len(sets)))
    campaign = Campaign({facts.name: facts for facts in sorted(sets)}, settings, journal, paths.jobs)
    if not signals.stopping():
        for step in signals.until_first(campaign.steps()):
            show(step)
    return campaign


def _wanted(found: FoundSets, names: tuple[str, ...] | None) -> list[DataSet]:
    """Return the sets of these names, or all if `names` is None; ConfigurationError for an unknown name."""
    known = {data_set.name: data_set for data_set in found.sets}
    if unknown := [name for name in names or () if name not in known]:
        raise ConfigurationError(f"--sets: expected some of {', '.join(known)}, found {', '.join(unknown)}")
    return found.sets if names is None else [known[name] for name in dict.fromkeys(names)]


def _absent(found: FoundSets, folder: Path) -> list[str]:
    """Return a note that names the sets which the manifest describes and the folder lacks; no note if there is none."""
    if not found.absent:
        return []
    names = ", ".join(found.absent)
    return [f"Absent in {folder}, though the manifest has them, and left out of all that follows: {names}."]


def _tell(notes: list[str]) -> None:
    """Print the notes that the report will have above its tables, before hours of learning."""
    for note in notes:
        say(f"note: {note}", err=True)


def _know(paper: "dict[str, PaperRow]", data_sets: list[DataSet]) -> None:
    for data_set in data_sets:
        if paper and data_set.paper is not None and data_set.paper not in paper:
            raise ConfigurationError(
                f"[{data_set.name}], paper: expected a name of the paper's table ({', '.join(paper)}), "
                f"found {data_set.paper!r}"
            )


@contextmanager
def _shown() -> Iterator[Callable[["PhaseProgress"], None]]:
    """Yield a function that shows progress: a bar for each phase on a terminal; lines elsewhere."""
    console = PrintableConsole(stderr=True)
    if not console.is_terminal:
        lines = PlainLines()

        def show_line(step: "PhaseProgress") -> None:
            done = step.done if step.runs else step.total
            text = f"{step.phase}: {step.runs} left"
            lines.show(text, done, step.total, phase=step.phase, due=not step.runs)

        yield show_line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[runs]} left"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    phases: dict[str, TaskID] = {}
    with Progress(*columns, console=console, speed_estimate_period=_PACE_OVER_S) as bars:

        def show_bar(step: "PhaseProgress") -> None:
            total = max(step.total, 1e-9)
            if step.phase not in phases:
                phases[step.phase] = bars.add_task(step.phase, total=total, runs=step.runs)
            bars.update(phases[step.phase], completed=step.done if step.runs else total, runs=step.runs)

        yield show_bar


if __name__ == "__main__":
    command(prog_name="python -m study")
