"""Figures of the reference implementation, on the real sets that it was measured on: within their noise, or better."""

from pathlib import Path

import pytest
from support.required import SharedFile

from stream_apple.study.tuples.attributes import read_attributes
from stream_apple.study.tuples.fitting import TupleChoice
from stream_apple.study.tuples.trials import FoldRunner, Trial, TrialResult, two_folds


def results_on(path: Path, *trials: Trial) -> list[TrialResult]:
    """Of one half that teaches, and the other that tests."""
    runner = FoldRunner(next(two_folds(read_attributes(path, 50_000), 0)))
    return [runner.run(trial) for trial in trials]


def test_covtype(shared: SharedFile) -> None:
    """Twelve attributes; selection by information is worth it for pairs (.195), and more so for triples (.158)."""
    path = shared("data/covtype.svm.gz")
    assert len(read_attributes(path, 50_000).names) == 12
    naive, every, pairs, triples = results_on(
        path,
        Trial(1, "AnJE"),
        Trial(2, TupleChoice(2)),
        Trial(2, TupleChoice(2, share=0.6)),
        Trial(3, TupleChoice(3, share=0.1)),
    )
    assert naive.worth.error == pytest.approx(0.261, abs=0.006)
    assert naive.parameters == 326
    assert every.parameters == pytest.approx(20_700, rel=0.01)
    assert pairs.parameters == pytest.approx(13_800, rel=0.02)
    assert triples.parameters == pytest.approx(86_000, rel=0.05)
    # The standard error of a half's test error is .0028.
    assert pairs.worth.error < 0.1951 + 0.006
    assert pairs.worth.error < every.worth.error
    assert triples.worth.error < 0.1580 + 0.006


def test_poker(shared: SharedFile) -> None:
    """Single cards know nothing; AnJE of pairs nearly all, and what is learned upon it all."""
    singles, counted, learned = results_on(
        shared("data/poker.svm.gz"), Trial(1, TupleChoice(1)), Trial(2, "AnJE"), Trial(2, TupleChoice(2))
    )
    assert singles.worth.error > 0.44
    assert counted.worth.error < 0.03
    assert learned.worth.error < 0.001
