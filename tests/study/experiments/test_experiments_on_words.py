"""The experiments on texts and streams, on a small set: all their tables, and what is kept."""

from pathlib import Path

import numpy as np
import pytest

from study.data_sets import DataSet
from study.experiments import streaming
from study.experiments.experiment import Experiment, Inquiry, StudyFinding
from study.methods import installed_version
from study.preparation import load_set
from study.runs.one_pass import PassMeasures, StreamLearner


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
    versions = {"river": "another", "vowpalwabbit": installed_version("vowpalwabbit")}
    monkeypatch.setattr(streaming, "installed_version", versions.get)
    monkeypatch.setattr(streaming, "digest_of_learners", lambda: "another")
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
    batch = load_set(DataSet("words", words), 10_000, tmp_path)
    order = np.random.default_rng(3).permutation(400)
    beginning = streaming.beginning_of(batch, 50, 3)
    np.testing.assert_array_equal(beginning.labels, batch.labels[order[:50]])
