"""The runs of a study in their order: rates are tuned, then all seeds are run, then seconds are measured one by one."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from stream_apple.learners.apple.options import Options
from stream_apple.offline import evaluation, schedule
from study.data_sets import DataSet
from study.methods import METHODS, installed_version
from study.preparation import SetFacts, load_arrays, prepare
from study.runs import learning, monomials, picky, product_test, vowpal, vowpal_pass
from study.runs.journal import Journal
from study.runs.learning import learn
from study.runs.processes import run_all
from study.runs.sources import digest_of_learners, digest_of_modules
from study.runs.vowpal import learn_with_vowpal
from study.settings import StudySettings
from study.tasks import Measures, Purpose, Task

_PROTOCOL = (evaluation, schedule, learning, monomials, picky, product_test, vowpal, vowpal_pass)
"""The modules that decide how a run is done and measured: a change in them makes its result another."""


class PhaseProgress(NamedTuple):
    """The progress of a phase: `done` of `total`, about in proportion to seconds, and how many `runs` are left."""

    phase: str
    done: float
    total: float
    runs: int


class Contender(NamedTuple):
    """One line of a study's tables: a method at an alpha, with so many epochs (0 if it does not grow)."""

    method: str
    alpha: float | None
    epochs: int


def contenders(settings: StudySettings) -> list[Contender]:
    """Return what is compared: each method, at each alpha and number of epochs that make a difference to it."""
    return [
        Contender(name, alpha, epochs)
        for name in settings.methods
        for epochs in (settings.epochs if METHODS[name].grows else (0,))
        for alpha in (settings.alphas if METHODS[name].grid else (None,))
    ]


def prepare_all(data_sets: Sequence[DataSet], settings: StudySettings, folder: Path, jobs: int) -> Iterator[SetFacts]:
    """Prepare the sets; yield the facts of each when it is done."""
    make = partial(_prepare, settings=settings, folder=folder / "sets")
    for _, facts in run_all(make, list(data_sets), jobs):
        yield facts


def _prepare(data_set: DataSet, settings: StudySettings, folder: Path) -> SetFacts:
    methods = [Options(**METHODS[name].overrides) for name in settings.methods]  # type: ignore[arg-type]
    columns = frozenset[str]().union(*(options.wanted_columns() for options in methods))
    return prepare(data_set, settings.rows, settings.loss, folder, columns)


class Campaign:
    """All runs of a study.

    finished  the measures of each finished run, including those in the journal
    """

    def __init__(self, sets: Mapping[str, SetFacts], settings: StudySettings, journal: Journal, jobs: int) -> None:
        self.sets = sets
        self.settings = settings
        self.finished: dict[Task, Measures] = {}
        self._journal = journal
        self._jobs = jobs
        protocol = {"protocol": digest_of_modules(_PROTOCOL)}
        self._ours = {"stream-apple": version("stream-apple"), "learners": digest_of_learners(), **protocol}
        self._theirs = {"vowpalwabbit": installed_version("vowpalwabbit") or "", **protocol}

    def steps(self) -> Iterator[PhaseProgress]:
        """Do the missing runs; yield the progress before the first run of a phase, and after each run."""
        rates = self.settings.rates
        if len(rates) > 1:
            tuning = [self._task("error", *each, rate, 0) for each in self._pairs() for rate in rates]
            yield from self._phase("tuning", tuning, self._jobs)
        seeds = [task for seed in range(self.settings.seeds) for task in self._chosen("error", seed)]
        yield from self._phase("seeds", seeds, self._jobs)
        if self.settings.timing:
            # One process, one task at a time: as far as we know, nothing else uses the machine's caches and cores.
            yield from self._phase("timing", list(self._chosen("timing", 0)), 1)

    def rate(self, data_set: str, contender: Contender) -> float | None:
        """Return the learning rate with the least progressive loss of seed 0; None if all have failed."""
        best, least = None, math.inf
        for rate in self.settings.rates:
            if len(self.settings.rates) == 1:
                return rate
            found = self.finished.get(self._task("error", data_set, contender, rate, 0))
            if found is not None and found.progressive_loss is not None and found.progressive_loss < least:
                best, least = rate, found.progressive_loss
        return best

    def measures(self, purpose: Purpose, data_set: str, contender: Contender, seed: int) -> Measures | None:
        """Return the measures of the run at the chosen rate; None if there are none."""
        rate = self.rate(data_set, contender)
        return None if rate is None else self.finished.get(self._task(purpose, data_set, contender, rate, seed))

    def loads(self) -> list[float]:
        """Return the machine's load average at the end of each timed run; the run itself is a load of 1."""
        timed = [task for task in self.finished if task.purpose == "timing"]
        return [float(self._journal.records[self._key(task)]["load"]) for task in timed]

    @property
    def versions(self) -> dict[str, str]:
        """The versions of all that has learned."""
        return {**self._ours, **self._theirs}

    def _pairs(self) -> Iterator[tuple[str, Contender]]:
        for facts in self.sets.values():
            for contender in contenders(self.settings):
                if contender.method not in facts.without:
                    yield facts.name, contender

    def _chosen(self, purpose: Purpose, seed: int) -> Iterator[Task]:
        for data_set, contender in self._pairs():
            if (rate := self.rate(data_set, contender)) is not None:
                yield self._task(purpose, data_set, contender, rate, seed)

    def _task(self, purpose: Purpose, data_set: str, contender: Contender, rate: float, seed: int) -> Task:
        bits = METHODS[contender.method].bits if self.settings.bits is None else self.settings.bits
        method, alpha, epochs = contender
        return Task(purpose, data_set, method, alpha, rate, seed, epochs, bits, self.settings.loss)

    def _phase(self, name: str, tasks: Sequence[Task], jobs: int) -> Iterator[PhaseProgress]:
        missing = []
        for task in tasks:
            record = self._journal.records.get(self._key(task))
            # A failed run is tried again: it may have failed for lack of memory.
            if record is None or record["measures"]["failure"] is not None:
                missing.append(task)
            else:
                self.finished[task] = Measures.from_json(record["measures"])
        costs = {task: expected_cost(task, self.sets[task.data_set]) for task in missing}
        # The longest first, so that at the end no process runs alone for long.
        missing.sort(key=costs.__getitem__, reverse=True)
        done, total = 0.0, sum(costs.values())
        yield PhaseProgress(name, done, total, len(missing))
        for count, (task, measures) in enumerate(run_all(partial(_run, sets=self.sets), missing, jobs), 1):
            record = {"task": task._asdict(), "measures": measures.to_json(), "versions": self._versions(task)}
            # The load says whether seconds were measured on a busy machine.
            record["load"] = os.getloadavg()[0]
            self._journal.add(self._key(task), record)
            self.finished[task] = measures
            done += costs[task]
            yield PhaseProgress(name, done, total, len(missing) - count)

    def _key(self, task: Task) -> str:
        return task.key(self.sets[task.data_set].digest, self._versions(task))

    def _versions(self, task: Task) -> dict[str, str]:
        return self._theirs if METHODS[task.method].is_vowpal else self._ours


def expected_cost(task: Task, facts: SetFacts) -> float:
    """Return about what a run costs, in proportion to seconds: examples times features, plus the cost of its start."""
    s, method = facts.nonzeros, task.method
    features = s
    if "cubic" in method:
        features = s + s * s / 2 + s**3 / 6
    elif "quadratic" in method:
        features = s + s * s / 2
    elif METHODS[method].proposal is not None:
        # Half of the examples have all products of the parents tested, in NumPy.
        features = 10 * (s + s ** (1 + (task.alpha or 1.0)))
    elif METHODS[method].grows or "--stage_poly" in (METHODS[method].arguments or ()):
        # With each epoch s^alpha more monomials become parents, but an example has fewer and fewer of them.
        features = s * (1 + min(s ** (task.alpha or 1.0) * math.sqrt(task.epochs or 6) / 4, 40))
    features = min(features, Options.max_features_per_example)
    start = 2e7 if METHODS[method].is_vowpal else 2e6 + (1 << task.bits) / 4
    return start + facts.rows * features * (3 if task.purpose == "timing" else 1)


_arrays = lru_cache(maxsize=2)(load_arrays)


def _run(task: Task, sets: Mapping[str, SetFacts]) -> Measures:
    """Do the task, in a process of the pool."""
    arrays = sets[task.data_set].arrays
    batch = _arrays(arrays)
    if METHODS[task.method].is_vowpal:
        return learn_with_vowpal(task, batch, arrays.parent / f"{arrays.stem}-text")
    return learn(task, batch)
