"""The experiments of logistic regression and of streams, on small sets: all their tables, and what is kept."""

from pathlib import Path

import numpy as np
import pytest

from stream_apple.study.data_sets import DataSet
from stream_apple.study.experiments import hashing, personal, regularisation, streaming
from stream_apple.study.experiments.experiment import Experiment, Inquiry, StudyFinding
from stream_apple.study.logistic.trial import load_rows
from stream_apple.study.runs.one_pass import PassMeasures, StreamLearner


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 texts of 300 words, the label by which half of the words are more frequent."""
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(400):
        label = int(rng.integers(0, 2))
        own = rng.integers(0, 150, 12) + 150 * label
        any_word = rng.integers(0, 300, 6)
        found = sorted({*own.tolist(), *any_word.tolist()})
        lines.append(f"{label} " + " ".join(f"{word + 1}:{1 / len(found):.4g}" for word in found))
    path = tmp_path_factory.mktemp("words") / "a_few.words.svm"
    path.write_text("\n".join(lines) + "\n")
    return path


def findings(experiment: Experiment, words: Path, out: Path, seeds: int = 2) -> dict[str, StudyFinding]:
    """By name; the progress told ends at what there is to do."""
    told: list[tuple[str, float, float]] = []
    inquiry = Inquiry(
        {"a_few.words": DataSet("a_few.words", words)}, out, seeds, 10_000, lambda *step: told.append(step)
    )
    found = {finding.name: finding for finding in experiment.run(inquiry)}
    assert all(len(row) == len(finding.columns) for finding in found.values() for row in finding.rows)
    if told:
        assert told[-1][1] == told[-1][2]
    return found


def test_regularisation(words: Path, tmp_path: Path) -> None:
    """Lazy is dense, L1 leaves fewer weights the stronger it is, and the cost is measured."""
    found = findings(regularisation.EXPERIMENT, words, tmp_path)
    assert list(found) == ["lazy-is-dense", "l2", "l1", "cost-a-few-words"]
    for row in found["lazy-is-dense"].rows:
        *_, difference, largest, nonzeros, same = row
        assert isinstance(difference, float)
        assert isinstance(largest, float)
        assert difference < 1e-12
        assert largest > 0.01
        assert same is True
        assert nonzeros
    counts = [row[-1] for row in found["l1"].rows]
    assert counts == sorted(counts, key=lambda count: -int(count or 0))
    plain, literal = found["l2"].rows[0], found["l2"].rows[-1]
    assert isinstance(plain[4], float)
    assert isinstance(literal[4], float)
    assert plain[4] < 0.1 < literal[4]
    assert plain[3:] == found["l1"].rows[0][3:]


def test_hashing(words: Path, tmp_path: Path) -> None:
    """Fewer slots than words cost; with room for all, nothing does, and the last row is without a table."""
    (finding,) = findings(hashing.EXPERIMENT, words, tmp_path).values()
    errors = {str(row[0]): [float(cell or 0.0) for cell in row[1:]] for row in finding.rows}
    assert list(errors) == ["8", "10", "12", "14", "16", "18", "20", "not hashed"]
    np.testing.assert_allclose(errors["20"], errors["not hashed"], atol=0.02)
    assert finding.plot is not None
    assert [len(curve.x) for curve in finding.plot.curves] == [7, 7, 7, 7, 1]
    assert all(error < 0.35 for row in errors.values() for error in row)


def test_personal(words: Path, tmp_path: Path) -> None:
    """Each filter with each planting; classes of users are disjoint, and together are those who have spam."""
    found = findings(personal.EXPERIMENT, words, tmp_path)
    assert list(found) == ["uncaught-a-few-words", "by-history-a-few-words"]
    rows = found["uncaught-a-few-words"].rows
    assert [row[:3] for row in rows] == [
        (label, users, inverted)
        for users, inverted in ((100, True), (1000, True), (100, False))
        for label in personal.FILTERS
    ]
    for row in rows:
        shared, own, ratio, least, greatest = row[3:8]
        assert all(isinstance(share, float) and 0 <= share <= 1 for share in (shared, own))
        assert (ratio is None) == (shared == 0)
        if isinstance(ratio, float) and isinstance(least, float) and isinstance(greatest, float):
            assert least <= ratio <= greatest
    inverted = [row for row in rows if row[2]]
    assert all(row[5] is not None for row in inverted)
    labels = {str(row[3]) for row in found["by-history-a-few-words"].rows}
    assert labels <= {"0", "1 to 7", "8 to 31", "32 to 127", "128 or more"}


def test_streams_are_kept(words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was measured is measured again, unless what learns is another; a seed more is a pass more."""
    passes: list[StreamLearner] = []

    def measured(learner: StreamLearner, rows: object) -> PassMeasures:  # noqa: ARG001
        passes.append(learner)
        return PassMeasures(400, 0.1 if learner.options is None else 0.05, 0.5, None if learner.arguments else 3.0, 1.0)

    monkeypatch.setattr(streaming, "pass_over", measured)
    found = findings(streaming.EXPERIMENT, words, tmp_path, seeds=1)
    assert list(found) == ["errors", "rates", "memory"]
    learners = streaming.stream_learners()
    assert passes == list(learners.values())
    assert found["errors"].columns == ("set", *learners)
    assert found["errors"].rows[0][1] == 0.1
    assert found["errors"].rows[1][0] == "at or below River, forest"
    assert found["errors"].rows[1][1] is None
    assert set(found["errors"].rows[1][2:4]) == {"1 of 1"}
    assert found["errors"].rows[1][-1] == "1 of 1"
    assert set(found["rates"].rows[0][1:]) == {800}
    assert set(found["memory"].rows[0][1:]) == {3.0}

    findings(streaming.EXPERIMENT, words, tmp_path, seeds=1)
    assert len(passes) == len(learners)
    findings(streaming.EXPERIMENT, words, tmp_path, seeds=2)
    assert passes[len(learners) :] == list(learners.values())
    passes.clear()
    monkeypatch.setattr(streaming, "river_version", lambda: "another")
    monkeypatch.setattr(streaming, "sources_of_core", lambda: [Path(__file__)])
    findings(streaming.EXPERIMENT, words, tmp_path, seeds=1)
    assert passes == [each for each in learners.values() if each.arguments is None]


def test_a_way_to_set_the_product_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a wrong one is found before anything is learned."""
    monkeypatch.setattr(streaming, "PRODUCT", {"small": {"loss": "logistic", "bits": 10}})
    assert streaming.stream_learners()["small"] == StreamLearner(options={"loss": "logistic", "bits": 10})
    for learner in streaming.stream_learners().values():
        assert [learner.options, learner.arguments, learner.river].count(None) == 2


def test_a_stream_begins_with_a_shuffle_of_all(words: Path, tmp_path: Path) -> None:
    """Not with the first rows of the file: those may be of one class."""
    rows, _ = load_rows(DataSet("words", words), 10_000, tmp_path)
    order = np.random.default_rng(3).permutation(400)
    beginning = streaming.beginning_of(rows, 50, 3)
    np.testing.assert_array_equal(beginning.labels, rows.labels[order[:50]])
