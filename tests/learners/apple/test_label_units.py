"""Labels that are amounts: learned in units of their spread, whatever unit they come in."""

import numpy as np
import pytest
from support.restoring import restored

from stream_apple.core.batch import Batch
from stream_apple.learners.apple import learner as learner_module
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.label_units import LabelUnits
from stream_apple.learners.scores import Scores

SIZE, FEATURES = 400, 4
OPTIONS = Options(bits=10)


def stream(centre: float, width: float, size: int = SIZE) -> Batch:
    """Labels that are a linear function of numbers, with this mean and about this deviation."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(size, FEATURES)).astype(np.float32)
    labels = centre + width * (values @ np.array([1.0, -1.0, 0.5, 0.0], np.float32) / 1.5).astype(np.float64)
    keys = np.tile(rng.integers(1, 1 << 63, FEATURES, np.uint64), size)
    return Batch(np.arange(0, size * FEATURES + 1, FEATURES), keys, values.reshape(-1), labels, np.ones(size))


def signs_of(batch: Batch) -> Batch:
    """Return the batch with labels of -1 and 1, both among the first two."""
    labels = np.where(batch.labels > 0, 1.0, -1.0)
    labels[:2] = 1.0, -1.0
    return batch._replace(labels=labels)


def learned(batch: Batch, step: int, options: Options = OPTIONS) -> tuple[Learner, Scores]:
    """The learner of the batch, `step` rows at a time, and all scores."""
    learner, scores = Learner(options), Scores.empty(len(batch.labels))
    for start in range(0, len(batch.labels), step):
        learner.learn(batch, start, min(start + step, len(batch.labels)), scores)
    return learner, scores


@pytest.mark.parametrize(("centre", "width"), [(200_000.0, 40_000.0), (-3.0, 1e-6), (0.0, 1e8)])
def test_any_unit_is_learned_equally_fast(centre: float, width: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses are those of labels around 0, in the square of the unit; without it a large unit is never reached."""
    _, usual = learned(stream(0.0, 1.0), SIZE)
    _, scores = learned(stream(centre, width), SIZE)
    late = slice(SIZE // 2, None)
    assert np.mean(scores.losses[late]) / width**2 == pytest.approx(np.mean(usual.losses[late]), rel=0.02)
    assert np.mean(usual.losses[late]) < 0.1
    if centre > 0.0:
        monkeypatch.setattr(learner_module, "LabelUnits", lambda **_: LabelUnits(standardized=False))
        _, plain = learned(stream(centre, width), SIZE)
        assert np.mean(plain.losses) > 20 * np.mean(scores.losses)


def test_scores_are_in_the_unit_of_labels() -> None:
    """The first is 0, those of the first ten labels are the mean of those before; a loss is that of the score."""
    batch = stream(50.0, 5.0)
    learner, scores = learned(batch, 7)
    before = [batch.labels[:at].mean() if at else 0.0 for at in range(10)]
    assert scores.predictions[:10] == pytest.approx(before, abs=1e-9)
    assert scores.linear[:10] == pytest.approx(before, abs=1e-9)
    assert np.array_equal(scores.losses, (scores.predictions - batch.labels) ** 2)
    assert learner.units.scale[0] == pytest.approx(batch.labels[:10].mean())
    assert learner.units.scale[1] == pytest.approx(batch.labels[:10].std())
    assert abs(learner.predict(batch).mean() - 50.0) < 1.0


def test_batches_do_not_matter() -> None:
    """However rows are cut, and rows without a label or a weight between them, scores and digest are the same."""
    batch = stream(50.0, 5.0)
    batch.labels[[0, 3, 4, 200]] = np.nan
    batch.weights[[2, 5]] = 0.0
    whole, expected = learned(batch, SIZE)
    for step in (1, 3, 64):
        parts, found = learned(batch, step)
        assert np.array_equal(found.predictions, expected.predictions)
        assert parts.digest() == whole.digest()


@pytest.mark.parametrize("label", [0.0, 7.5, -1e6])
def test_equal_labels_are_waited_out(label: float) -> None:
    """As long as all are equal that is what is predicted; the first other one ends it."""
    batch = stream(0.0, 1.0)
    batch.labels[:300] = label
    learner, scores = learned(batch, 50)
    assert set(scores.predictions[1:300].tolist()) == {label}
    assert learner.units.fixed
    assert np.isfinite(scores.predictions).all()
    alone, _ = learned(batch.select(np.arange(300)), 300)
    assert not alone.units.fixed
    assert alone.examples == 300


CLASSES = {"signs": (-1.0, 1.0), "bits": (0.0, 1.0)}


@pytest.mark.parametrize("ones_first", [True, False])
@pytest.mark.parametrize("classes", CLASSES.values(), ids=list(CLASSES))
def test_two_classes_are_learned_at_once(
    classes: tuple[float, float], monkeypatch: pytest.MonkeyPatch, *, ones_first: bool
) -> None:
    """From the first label that is not 0 on, as -1 and 1 would be without units; all such models have the same ones."""
    signs = signs_of(stream(0.0, 1.0))
    signs.labels[:2] = (1.0, -1.0) if ones_first else (-1.0, 1.0)
    given = signs._replace(labels=np.where(signs.labels > 0, classes[1], classes[0]))
    # Else the first label is learned again, in units that are known by then.
    monkeypatch.setattr(Learner, "_rehearse", lambda *_, **__: None)
    learner, scores = learned(given, 7)
    low, high = classes
    assert learner.units.scale == ((low + high) / 2.0, (high - low) / 2.0)
    zeros = 1 if given.labels[0] == 0.0 else 0  # nothing is learned from them
    expected = signs._replace(labels=np.concatenate([np.zeros(zeros), signs.labels[zeros:]]))
    monkeypatch.setattr(learner_module, "LabelUnits", lambda **_: LabelUnits(standardized=False))
    plain, found = learned(expected, 7)
    settled = slice(3, None)
    assert scores.predictions[settled] == pytest.approx(
        (low + high) / 2.0 + (high - low) / 2.0 * found.predictions[settled]
    )
    assert np.array_equal(learner.table.slots, plain.table.slots)


@pytest.mark.parametrize("labels", [(0.0, 1.0, 0.0, 3.0), (-1.0, 1.0, 0.0), (0.0, 0.0, -1.0), (1.0, 1.0, 0.5), (2.0,)])
def test_a_third_value_makes_amounts(labels: tuple[float, ...]) -> None:
    """Mean and deviation are those of the first ten; until then predictions are within one of the mean so far."""
    batch = stream(20.0, 5.0)
    batch.labels[: len(labels)] = labels
    learner, scores = learned(batch, 3)
    assert learner.units.scale[0] == pytest.approx(batch.labels[:10].mean())
    assert learner.units.scale[1] == pytest.approx(batch.labels[:10].std())
    for at in range(len(labels), 10):
        so_far = batch.labels[:at]
        assert abs(scores.linear[at] - so_far.mean()) <= so_far.std() * 1.001


@pytest.mark.parametrize("given", [stream(50.0, 5.0), signs_of(stream(0.0, 1.0))], ids=["amounts", "classes"])
def test_the_state_is_the_models(given: Batch) -> None:
    """A restored learner goes on as the one that was saved, while the units are open and afterwards."""
    for at in (4, 40):
        learner, scores = Learner(OPTIONS), Scores.empty(SIZE)
        learner.learn(given, 0, at, scores)
        other = restored(learner)
        found = Scores.empty(SIZE)
        learner.learn(given, at, SIZE, scores)
        other.learn(given, at, SIZE, found)
        assert np.array_equal(found.predictions[at:], scores.predictions[at:])
        assert other.digest() == learner.digest()


def test_labels_beyond_all_reason_leave_numbers() -> None:
    """Squares that overflow are no deviation."""
    units = LabelUnits(standardized=True)
    labels = np.array([1e200, -1e200] * 5)
    units.include(labels)
    assert np.isfinite([units.scale[0], units.scale[1]]).all()
