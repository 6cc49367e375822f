"""The experiment on selected tuples, from a file to its tables, on sets that are small."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from study.tuples.planted import write_classes

from stream_apple.study.data_sets import DataSet
from stream_apple.study.experiments.experiment import Inquiry, StudyFinding
from stream_apple.study.experiments.registry import load_experiment
from stream_apple.study.tuples import trials
from stream_apple.study.tuples.attributes import read_attributes
from stream_apple.study.tuples.fitting import TupleChoice
from stream_apple.study.tuples.trials import FoldRunner, Trial, orders_of, planned_trials, two_folds


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three attributes, three classes."""
    return write_classes(tmp_path_factory.mktemp("sets") / "planted.svm", 900)


class TestTrials:
    """What is tried on a fold."""

    def test_halves_teach_and_test_once_each(self, path: Path) -> None:
        """Of one seed, each row is tested once, by a model that has not seen it; other seeds have other halves."""
        table = read_attributes(path, 900)
        first, second = two_folds(table, 0)
        assert sorted([*first.tested, *second.tested]) == list(range(900))
        assert set(first.trained) == set(second.tested)
        assert set(next(two_folds(table, 1)).trained) != set(first.trained)

    def test_orders_are_those_that_fit(self) -> None:
        """No more than there are attributes, nor than may be held in memory."""
        assert orders_of(12) == (1, 2, 3)
        assert orders_of(2) == (1, 2)
        assert orders_of(30) == (1, 2)
        assert orders_of(1_001) == ()

    def test_nothing_is_tried_twice(self) -> None:
        """And the paper's shares, scores and baselines are all there."""
        planned = planned_trials((1, 2))
        assert len(planned) == len(set(planned))
        assert {Trial(2, TupleChoice(2, "cv", share, by_level=True)) for share in trials.SHARES} <= set(planned)
        assert {Trial(order, name) for order in (1, 2) for name in ("AnJE", "KDB", "sKDB")} <= set(planned)

    def test_baselines_are_what_they_are_called(self, path: Path) -> None:
        """The most frequent class is worse than one attribute at a time; a forest knows raw numbers."""
        pytest.importorskip("sklearn")
        (fold, _) = two_folds(read_attributes(path, 900), 0)
        runner = FoldRunner(fold)
        labels = fold.table.labels
        frequent = np.bincount(labels[fold.trained]).argmax()
        majority = runner.run(Trial(0, "majority")).worth
        assert majority.error == pytest.approx((labels[fold.tested] != frequent).mean())
        errors = {trial: runner.run(trial).worth.error for trial in (Trial(1, "AnJE"), Trial(0, "forest"))}
        assert max(errors.values()) < majority.error - 0.1
        naive, kdb = runner.run(Trial(1, "AnJE")), runner.run(Trial(1, "KDB"))
        assert naive.worth.error == pytest.approx(kdb.worth.error, abs=0.01)


def test_the_whole_experiment(path: Path, tmp_path: Path) -> None:
    """On three classes: a table of the data, by order, by share, of choices, and of everything, which agree."""
    pytest.importorskip("sklearn")
    told: list[tuple[str, float, float]] = []
    inquiry = Inquiry(
        {"planted": DataSet("planted", path)}, tmp_path, 1, 600, lambda *progress: told.append(progress)
    )  # fmt: skip
    findings: dict[str, StudyFinding] = {each.name: each for each in load_experiment("tuples").run(inquiry)}
    assert list(findings) == [
        f"planted-{part}" for part in ("data", "by-order", "by-share-1", "by-share-2", "by-share-3", "choices", "all")
    ]
    facts = {what: how_much for what, how_much in findings["planted-data"].rows}  # noqa: C416  rows have two cells
    assert (facts["examples"], facts["attributes"], facts["classes"]) == (600, 3, 3)
    everything = {row[:5]: row for row in findings["planted-all"].rows}
    majority = everything["majority", 0, None, "quantile", None][5]
    plain = everything["ALR", 2, 1.0, "quantile", "learned"][5]
    assert isinstance(majority, float)
    assert isinstance(plain, float)
    assert plain < majority - 0.1
    by_order = {row[0]: row for row in findings["planted-by-order"].rows}
    assert by_order["2"][4] == plain
    assert by_order["forest"][1] == everything["forest", 0, None, "quantile", None][5]
    shares = findings["planted-by-share-2"]
    assert [row[0] for row in shares.rows] == [*(f"{share:g}" for share in trials.SHARES), "1"]
    assert set(shares.rows[-1][1:]) == {plain}
    assert shares.plot is not None
    assert [len(curve.x) for curve in shares.plot.curves] == [7] * 6 + [1] * 2
    assert told[-1] == ("planted", told[-1][2], told[-1][2])
    assert all(a[1] <= b[1] for a, b in pairwise(told))
