"""The outcomes of a study as tables show them: a line for each method and alpha, a column for each set."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from study.methods import BASELINES, METHODS, STAGE_POLY_CHOICES, VOWPAL_CHOICES
from study.preparation import SetFacts
from study.report.derived import mean_of, ratio, relative_error
from study.runs.campaign import Campaign, Contender, contenders
from study.settings import StudySettings
from study.tasks import LossesSoFar

BEST, CHOSEN = "-best", "-chosen"
VOWPAL_BEST, STAGE_POLY_BEST = "vw-best", "vw-stage-poly-best"
_HINDSIGHT = {VOWPAL_BEST: VOWPAL_CHOICES, STAGE_POLY_BEST: STAGE_POLY_CHOICES}
"""Lines that have, on each set, the outcome of that of these methods with the least progressive error."""


class Outcome(NamedTuple):
    """What a line showed on a set.

    errors    of the test part, by seed; `losses` are progressive, by seed
    features  of an example, in the pass of seed 0
    ends      by seed, at the end of each epoch
    before    progressive errors, by seed
    tested    products of an example that were tested, and not learned
    label     of the line that it is of, or that was chosen
    """

    errors: Sequence[float | None]
    losses: Sequence[float | None]
    features: float | None = None
    seconds: float | None = None
    rate: float | None = None
    ends: Sequence[Sequence[LossesSoFar]] = ()
    before: Sequence[float | None] = ()
    tested: float | None = None
    label: str | None = None

    @property
    def error(self) -> float | None:
        """The mean test error of the seeds; None if one failed."""
        return mean_of(self.errors)

    @property
    def loss(self) -> float | None:
        """The mean progressive loss of the seeds; None if one failed."""
        return mean_of(self.losses)

    @property
    def error_before_learning(self) -> float | None:
        """The mean progressive error of the seeds; None if one failed."""
        return mean_of(self.before)


_NOT_RUN = Outcome((), ())


class Line(NamedTuple):
    """A line of the tables: `alpha` None has no grid, or is one of the lines that choose."""

    label: str
    method: str
    alpha: float | None = None

    @property
    def program(self) -> str:
        """Whose linear predictor its time is measured by."""
        return "vw-linear" if self.is_vowpal else "linear"

    @property
    def is_vowpal(self) -> bool:
        """Return whether Vowpal Wabbit made this line."""
        return self.method in _HINDSIGHT or (self.method in METHODS and METHODS[self.method].is_vowpal)


Cells = Mapping[tuple[str, str], Outcome]
"""(label of the line, name of the set) -> outcome."""


class Outcomes(NamedTuple):
    """Everything that the first number of epochs has shown.

    sets  in the order of tables, by name
    """

    sets: Sequence[SetFacts]
    lines: Sequence[Line]
    cells: Cells

    def get(self, label: str, data_set: str) -> Outcome:
        """Return what one line showed on one set: nothing if it was not run."""
        return self.cells.get((label, data_set), _NOT_RUN)

    def relative_error(self, line: Line, data_set: str) -> float | None:
        """Return where the error lies between the best and the worst of the baselines that were run."""
        baselines = [self.get(name, data_set).error for name in BASELINES]
        return relative_error(self.get(line.label, data_set).error, baselines)

    def relative_time(self, line: Line, data_set: str) -> float | None:
        """Return the seconds, divided by those of the linear predictor of the same program."""
        return ratio(self.get(line.label, data_set).seconds, self.get(line.program, data_set).seconds)

    def claimed(self) -> list[Line]:
        """Return the lines of claims: each method that grows, at its largest alpha, and those that choose."""
        growing = [line for line in self.lines if line.method in METHODS and METHODS[line.method].grows]
        last = {line.method: line for line in growing}
        choosing = [line for line in self.lines if line.method not in METHODS]
        return [*last.values(), *choosing]


def label_of(method: str, alpha: float | None) -> str:
    """Return the label of a line in a figure."""
    return method if alpha is None else f"{method} α={alpha:g}"  # noqa: RUF001  the paper's sign


def gather_outcomes(campaign: Campaign) -> Outcomes:
    """Return all outcomes at the first number of epochs, with the lines that choose among alphas."""
    settings = campaign.settings
    first = settings.epochs[0]
    lines: list[Line] = []
    cells: dict[tuple[str, str], Outcome] = {}
    sets = sorted(campaign.sets.values(), key=lambda facts: facts.name)
    for contender in contenders(settings):
        if contender.epochs in {0, first}:
            line = Line(label_of(contender.method, contender.alpha), contender.method, contender.alpha)
            lines.append(line)
            for facts in sets:
                if (outcome := outcome_of(campaign, facts, contender)) is not None:
                    cells[line.label, facts.name] = outcome._replace(label=line.label)
    for method in settings.methods:
        if METHODS[method].grid and len(settings.alphas) > 1:
            grid = [line for line in lines if line.method == method]
            for suffix, choose in ((BEST, best_of), (CHOSEN, chosen_of)):
                lines.append(_choose(cells, method + suffix, sets, grid, choose))
    for label, choices in _HINDSIGHT.items():
        # Of fewer it would be the best of what happened to be run.
        if set(choices) <= set(settings.methods):
            chosen_from = [line for line in lines if line.method in choices]
            lines.append(_choose(cells, label, sets, chosen_from, best_before_learning))
    return Outcomes(sets, lines, cells)


def outcome_of(campaign: Campaign, facts: SetFacts, contender: Contender) -> Outcome | None:
    """Return what all seeds showed; None if it was not run on the set."""
    runs = [campaign.measures("error", facts.name, contender, seed) for seed in range(campaign.settings.seeds)]
    found = [run for run in runs if run is not None]
    if len(found) < len(runs):
        return None
    timed = campaign.measures("timing", facts.name, contender, 0)
    return Outcome(
        errors=[run.error(facts.problem) for run in found],
        losses=[run.progressive_loss for run in found],
        features=found[0].features_per_example,
        seconds=None if timed is None else timed.seconds,
        rate=campaign.rate(facts.name, contender),
        ends=[run.ends for run in found],
        before=[run.error_before_learning(facts.problem) for run in found],
        tested=found[0].tested_per_example,
    )


def best_of(grid: Sequence[Outcome]) -> Outcome | None:
    """Choose the least mean test error, as in the paper: that needs the answers."""
    return _least(grid, attrgetter("error"))


def best_before_learning(choices: Sequence[Outcome]) -> Outcome | None:
    """Choose the least mean progressive error."""
    return _least(choices, attrgetter("error_before_learning"))


def _least(choices: Sequence[Outcome], value: Callable[[Outcome], float | None]) -> Outcome | None:
    known = (outcome for outcome in choices if value(outcome) is not None)
    return min(known, key=lambda outcome: value(outcome) or 0.0, default=None)


def chosen_of(grid: Sequence[Outcome]) -> Outcome | None:
    """Choose for each seed the least progressive loss: anybody could do that before the test."""
    known = [outcome for outcome in grid if outcome.loss is not None]
    if not known:
        return None
    chosen = [min(known, key=lambda outcome: outcome.losses[seed] or 0.0) for seed in range(len(known[0].losses))]
    return chosen[0]._replace(
        errors=[outcome.errors[seed] for seed, outcome in enumerate(chosen)],
        losses=[outcome.losses[seed] for seed, outcome in enumerate(chosen)],
        ends=[outcome.ends[seed] for seed, outcome in enumerate(chosen) if outcome.ends],
        before=[outcome.before[seed] for seed, outcome in enumerate(chosen) if outcome.before],
    )


def _choose(
    cells: dict[tuple[str, str], Outcome],
    label: str,
    sets: Sequence[SetFacts],
    lines: Sequence[Line],
    choose: Callable[[Sequence[Outcome]], Outcome | None],
) -> Line:
    """Return a line that has, on each set, the outcome that is chosen from those of other lines."""
    for facts in sets:
        known = [cells[line.label, facts.name] for line in lines if (line.label, facts.name) in cells]
        if (outcome := choose(known)) is not None:
            cells[label, facts.name] = outcome
    return Line(label, label)


def worst_ratio(ends: Sequence[Sequence[LossesSoFar]]) -> tuple[float, int] | None:
    """Return the greatest progressive loss over that of linear alongside, after any epoch of any seed, and its number.

    None where there is no linear alongside, or its loss is 0.
    """
    ratios = [
        (end.loss / end.linear_loss, number) for seed in ends for number, end in enumerate(seed, 1) if end.linear_loss
    ]
    return max(ratios, default=None)


def described(settings: StudySettings) -> str:
    """Return the protocol in one line of text."""
    rates = f"rate {settings.rates[0]:g}"
    if len(settings.rates) > 1:
        rates = f"rates {', '.join(f'{rate:g}' for rate in settings.rates)} chosen by the progressive loss of seed 0"
    return (
        f"one pass, 80/20, {settings.epochs[0]} equal epochs, {settings.loss} loss, {rates}, "
        f"seeds 0 to {settings.seeds - 1}, at most {settings.rows:,} rows a set"
    )
