"""The experiments on texts and streams, on a small set: all their tables, and what is kept."""

from pathlib import Path

import numpy as np
import pytest

from stream_apple.core.batch import space_key
from study.data_sets import DataSet
from study.experiments import hashing, personal, regularization, streaming
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


def test_regularization(words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L1 leaves fewer weights the stronger it is, weak L2 leaves all; without a penalty both are the same."""
    monkeypatch.setattr(regularization, "BITS", 16)  # as many slots as three hundred words need
    found = findings(regularization.EXPERIMENT, words, tmp_path)
    assert list(found) == ["l2", "l1"]
    l1, l2 = ([row[-1] for row in found[which].rows] for which in ("l1", "l2"))
    assert l1 == sorted(l1, key=lambda count: -int(count or 0))
    assert int(l1[-1] or 0) < int(l1[0] or 0)
    assert len(set(l2[:3])) == 1
    assert found["l1"].rows[0] == found["l2"].rows[0]
    assert all(float(row[2] or 0.0) < 0.1 for row in found["l2"].rows[:-1])


def test_hashing(words: Path, tmp_path: Path) -> None:
    """Fewer slots than words cost; with room for all, it makes no difference what becomes of the others."""
    (finding,) = findings(hashing.EXPERIMENT, words, tmp_path).values()
    errors = {str(row[0]): [float(cell or 0.0) for cell in row[1:]] for row in finding.rows}
    assert list(errors) == ["8", "10", "12", "14", "16", "18", "20"]
    assert errors["20"][0] == pytest.approx(errors["20"][1], abs=0.02)
    assert finding.plot is not None
    assert [len(curve.x) for curve in finding.plot.curves] == [7, 7]
    assert all(error < 0.35 for row in errors.values() for error in row)


def test_personal(words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each planting; the classes of histories have all the spam among them."""
    monkeypatch.setattr(personal, "BITS", 16)  # as many slots as three hundred words need
    found = findings(personal.EXPERIMENT, words, tmp_path)
    assert list(found) == ["uncaught-a-few-words", "by-history-a-few-words"]
    rows = found["uncaught-a-few-words"].rows
    assert [row[:2] for row in rows] == [(str(plan.users), plan.inverted) for plan in personal.PLANS]
    for row in rows:
        shared, own, ratio, least, greatest = row[2:]
        assert all(isinstance(share, float) and 0 <= share <= 1 for share in (shared, own))
        assert (ratio is None) == (shared == 0)
        if isinstance(ratio, float) and isinstance(least, float) and isinstance(greatest, float):
            assert least <= ratio <= greatest
    histories = found["by-history-a-few-words"].rows
    assert {str(row[2]) for row in histories} <= {"0", "1 to 7", "8 to 31", "32 to 127", "128 or more"}
    spam = [sum(int(row[3] or 0) for row in histories if row[:2] == planted[:2]) for planted in rows]
    assert all(60 < count < 100 for count in spam)


def test_users_are_planted(words: Path, tmp_path: Path) -> None:
    """By Zipf's law; every tenth by rank, and nobody else, has all labels the other way round."""
    batch = load_set(DataSet("words", words), 10_000, tmp_path)
    many = batch.select(np.resize(np.arange(400), 20_000))
    planted, users = personal.plant_users(many, personal.Plan(50, inverted=True), 2)
    _, first, owners = np.unique(users, return_index=True, return_inverse=True)
    counts = np.sort(np.bincount(owners))[::-1]
    expected = 20_000 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum()
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected) + 5).all()
    turned = planted.labels != many.labels
    assert len(first) == 50
    assert len(np.unique(owners[turned])) == 5
    assert turned[np.isin(owners, owners[turned])].all()
    alike = personal.plant_users(many, personal.Plan(50, inverted=False), 2)
    np.testing.assert_array_equal(alike.users, users)
    np.testing.assert_array_equal(alike.mails.labels, many.labels)


def test_a_feature_of_each_mail_names_its_user(words: Path, tmp_path: Path) -> None:
    """The first one, of value 1, alone in the namespace of users; the others are the mail's."""
    planted = personal.plant_users(load_set(DataSet("words", words), 50, tmp_path), personal.PLANS[0], 1)
    named = personal.with_user_features(planted)
    first = named.indptr[:-1]
    np.testing.assert_array_equal(named.keys[first], planted.users)
    assert set(named.values[first].tolist()) == {1.0}
    assert np.flatnonzero(named.spaces == space_key(personal.NAMESPACE)).tolist() == first.tolist()
    np.testing.assert_array_equal(np.delete(named.keys, first), planted.mails.keys)
    np.testing.assert_array_equal(np.diff(named.indptr), np.diff(planted.mails.indptr) + 1)


@pytest.mark.parametrize("ham", [1, 99, 100, 101, 250, 2900, 5800])
@pytest.mark.parametrize("different", [7, 50, 10**6])
def test_the_threshold_is_the_lowest_that_is_allowed(ham: int, different: int) -> None:
    """Beside a search over all scores: at most 1 % of the ham above it, ties counted, and no lower one has that."""
    rng = np.random.default_rng(ham + different)
    spam = rng.permutation(np.repeat([False, True], [ham, ham // 2 + 1]))
    scores = np.floor(different * (rng.random(len(spam)) + 0.3 * spam))
    threshold = personal.filter_threshold(scores, spam)
    lost = {candidate: int((scores[~spam] > candidate).sum()) for candidate in np.unique(scores)}
    allowed = [candidate for candidate, count in lost.items() if 100 * count <= ham]
    caught = (scores[spam] > threshold).sum()
    assert 100 * (scores[~spam] > threshold).sum() <= ham
    assert caught == max((scores[spam] > candidate).sum() for candidate in allowed)


def test_the_ends_of_thresholds() -> None:
    """All ham may be lost, or there is none to set the threshold by; percentages are reckoned in integers."""
    scores, spam = np.arange(101.0), np.zeros(101, bool)
    spam[0] = True
    assert (scores[~spam] > personal.filter_threshold(scores, spam, 29)).sum() == 29
    assert personal.filter_threshold(np.array([1.0, 2.0]), np.array([False, True]), 100) == -np.inf
    with pytest.raises(ValueError, match="expected ham"):
        personal.filter_threshold(np.zeros(2), np.ones(2, bool))


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
