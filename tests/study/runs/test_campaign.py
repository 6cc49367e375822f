"""The order of a study's runs, and what it need not do again."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.tiny_sets import write_tiny_sets

from study.data_sets import find_data_sets
from study.preparation import SetFacts, prepare
from study.runs import campaign as module
from study.runs.campaign import Campaign, Contender, PhaseProgress
from study.runs.journal import Journal
from study.runs.learning import learn
from study.settings import StudySettings
from study.tasks import Measures, Task

SETTINGS = StudySettings(
    ("linear", "apple-plain"), alphas=(0.5, 1.0), seeds=2, rates=(0.1, 0.5), epochs=(3, 6), bits=10, timing=True
)
FEW = SETTINGS._replace(alphas=(1.0,), rates=(0.5,), epochs=(3,))
"""Two contenders at one rate: 4 runs on two sets, then 4 of seed 1, and 4 that are timed."""


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, SetFacts]:
    """The tiny ones, prepared."""
    found = find_data_sets(write_tiny_sets(tmp_path / "sets")).sets
    return {each.name: prepare(each, 1000, "squared", tmp_path / "arrays") for each in found}


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Every task that is run; in this process, one after the other."""
    tasks: list[Task] = []
    monkeypatch.setattr(module, "run_all", _here(tasks))
    return tasks


def _here(tasks: list[Task]) -> Callable[..., Iterator[tuple[Task, object]]]:
    def run_here(
        function: Callable[[Task], object], given: Sequence[Task], _processes: int
    ) -> Iterator[tuple[Task, object]]:
        for task in given:
            tasks.append(task)
            yield task, function(task)

    return run_here


def run(
    sets: dict[str, SetFacts], path: Path, settings: StudySettings = SETTINGS
) -> tuple[Campaign, list[PhaseProgress]]:
    """The whole campaign, with its journal at `path`."""
    with Journal(path) as journal:
        campaign = Campaign(sets, settings, journal, 1)
        return campaign, list(campaign.steps())


def test_what_is_run(sets: dict[str, SetFacts], done: list[Task], tmp_path: Path) -> None:
    """Linear once, apple at two alphas with two numbers of epochs, on two sets: 10, at two rates, for seed 0.

    Then seed 1 at the best rate, and a timed run of each.
    """
    campaign, steps = run(sets, tmp_path / "runs")
    assert [len([task for task in done if task.purpose == purpose]) for purpose in ("error", "timing")] == [30, 10]
    assert {task.seed for task in done[:20]} == {0}
    assert {task.epochs for task in done if task.method == "linear"} == {0}
    assert [(step.phase, step.runs) for step in steps if not step.done] == [
        ("tuning", 20),
        ("seeds", 10),
        ("timing", 10),
    ]
    assert all(step.done <= step.total * 1.000001 for step in steps)
    for name in sets:
        contender = Contender("apple-plain", 1.0, 6)
        tuned = {
            task.rate: m
            for task, m in campaign.finished.items()
            if task[:4] == ("error", name, "apple-plain", 1.0) and task.seed == 0 and task.epochs == 6
        }
        best = min(tuned, key=lambda rate: tuned[rate].progressive_loss or 9.0)
        assert campaign.rate(name, contender) == best
        measures = campaign.measures("error", name, contender, 1)
        assert measures is not None
        assert len(measures.ends) == 6
        assert measures.ends[-1].loss == pytest.approx(measures.progressive_loss)
        assert measures.ends[-1].linear_loss == pytest.approx(measures.linear_progressive_loss)
        timed = campaign.measures("timing", name, contender, 0)
        assert timed is not None
        assert (timed.seconds or 0) > 0


def test_finished_runs_are_not_done_again(sets: dict[str, SetFacts], done: list[Task], tmp_path: Path) -> None:
    """With the same result; a wider study does what is new."""
    first, _ = run(sets, tmp_path / "runs", FEW)
    before = len(done)
    assert before == 12
    again, _ = run(sets, tmp_path / "runs", FEW)
    assert len(done) == before
    assert again.finished == first.finished
    run(sets, tmp_path / "runs", FEW._replace(seeds=3))
    assert len(done) == before + 4
    assert {task.seed for task in done[before:]} == {2}


def test_what_has_failed_is_tried_again(
    sets: dict[str, SetFacts], done: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been for want of memory. A failed rate is not chosen; where all failed, there is no result."""
    settings = SETTINGS._replace(methods=("linear",), seeds=1, timing=False)
    actual = learn
    monkeypatch.setattr(
        module, "learn", lambda task, batch: Measures(failure="no") if task.rate == 0.5 else actual(task, batch)
    )
    campaign, _ = run(sets, tmp_path / "runs", settings)
    assert campaign.rate("pairs", Contender("linear", None, 0)) == 0.1
    monkeypatch.undo()
    monkeypatch.setattr(module, "run_all", _here(done))
    before = len(done)
    run(sets, tmp_path / "runs", settings)
    assert {task.rate for task in done[before:]} == {0.5}
    monkeypatch.setattr(module, "learn", lambda _task, _batch: Measures(failure="no"))
    campaign, _ = run(sets, tmp_path / "others", settings)
    assert campaign.rate("pairs", Contender("linear", None, 0)) is None


def test_another_learner_s_runs_do_not_count(
    sets: dict[str, SetFacts], done: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source of the learner is part of what a run is known by."""
    settings = FEW._replace(timing=False)
    run(sets, tmp_path / "runs", settings)
    before = len(done)
    monkeypatch.setattr(module, "digest_of_learners", lambda: "another")
    run(sets, tmp_path / "runs", settings)
    assert len(done) == 2 * before


def test_methods_that_a_set_leaves_out(sets: dict[str, SetFacts], done: list[Task], tmp_path: Path) -> None:
    """Are not run on it."""
    sets["slope"] = sets["slope"]._replace(without=("apple-plain",))
    campaign, _ = run(sets, tmp_path / "runs", SETTINGS._replace(timing=False, rates=(0.5,)))
    assert {task.method for task in done if task.data_set == "slope"} == {"linear"}
    assert {task.method for task in done if task.data_set == "pairs"} == {"linear", "apple-plain"}
    assert campaign.measures("error", "slope", Contender("apple-plain", 1.0, 3), 0) is None
