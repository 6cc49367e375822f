"""Examples that are learned again when they get new features: the first with new splines, the latest at growths.

The oracle is a learner that does not, and is given the same examples twice.
"""

from typing import Any

import numpy as np
import pytest
from support.restoring import restored

from stream_apple.core.batch import Batch
from stream_apple.learners.apple import learner as learner_module
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.preparation.preparation import Preparation
from stream_apple.learners.label_units import LabelUnits
from stream_apple.learners.scores import Scores

COLUMNS = 5
AGAIN = (5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33, 40)  # examples known when numbers are centered, or at last get points
LOSSES = (("logistic", 0), ("squared", 0), ("softmax", 3))


def stream(size: int, loss: str = "logistic", seed: int = 0) -> Batch:
    """Numbers whose label depends on where two of them lie, with importance weights."""
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(size, COLUMNS)).astype(np.float32)
    near = (np.abs(cells[:, 0]) < 0.7).astype(int) + (cells[:, 1] > 0.5)
    labels = np.where(near > 0, 1.0, -1.0) if loss == "logistic" else near.astype(np.float64)
    keys = np.tile(np.arange(1, COLUMNS + 1, dtype=np.uint64), size)
    weights = rng.choice([0.5, 1.0, 2.0], size)
    return Batch(np.arange(0, len(keys) + 1, COLUMNS), keys, cells.ravel(), labels, weights)


def learned(batch: Batch, *stretches: tuple[int, int], **chosen: Any) -> tuple[Learner, Scores]:
    """A learner of these rows, one stretch after the other."""
    learner, scores = Learner(Options(bits=10, **chosen)), Scores.empty(len(batch.labels))
    for start, stop in stretches:
        learner.learn(batch, start, stop, scores)
    return learner, scores


def learned_once(batch: Batch, *stretches: tuple[int, int], **chosen: Any) -> tuple[Learner, Scores]:
    """The same, but nothing is learned again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "_rehearse", lambda *_, **__: None)
        return learned(batch, *stretches, **chosen)


def weights_of(learner: Learner) -> dict[str, Any]:
    """What the learner knows of features: all that examples change, but for who is a parent."""
    slots, table, sums = learner.slots(), learner.table, learner.sums
    order = np.argsort(slots["key"], kind="stable")
    order = order[(slots["key"][order] != 0) | (order == len(slots) - 1)]
    names = [name for name in slots.dtype.names or () if name not in {"parent", "active"}]
    found = {name: slots[name][order].tolist() for name in names}
    found |= {"classes": table.class_weights[order].tolist()} if learner.options.classes else {}
    return found | {"companions": table.companions[order].tolist(), "sums": [sums["norm"], sums["weight"]]}


@pytest.mark.parametrize(("loss", "classes"), LOSSES)
def test_the_first_examples_are_learned_again_when_numbers_are_centered_or_get_points(loss: str, classes: int) -> None:
    """As if they were given again, as they are prepared from then on, to a learner that leaves numbers as they are."""
    batch = stream(40, loss)
    chosen: dict[str, Any] = {"loss": loss, "classes": classes, "mergeable": True}
    once, _ = learned_once(batch, (0, 40), **chosen)
    oracle, _ = learned_once(batch, discretise="none", **chosen)
    preparation = Preparation(Options(bits=10, **chosen))
    start = 0
    for known in AGAIN:
        fixed = oracle.units.fixed  # before that labels are in other units, and nothing is learned again
        parts = [part.rows for part in preparation.prepare_to_learn(batch, start, known)]
        parts.append(preparation.prepare(batch, 0, known))
        for part in parts if fixed else parts[:-1]:
            oracle.learn(part, 0, len(part.labels), Scores.empty(len(part.labels)))
        start = known
    for stretches in ([(0, 40)], [(0, 7), (7, 39), (39, 40)]):
        found, _ = learned(batch, *stretches, **chosen)
        assert found.preparation.settled
        assert str(weights_of(found)) == str(weights_of(oracle)) != str(weights_of(once))
        assert found.examples == 40


@pytest.mark.parametrize(("loss", "classes"), LOSSES)
def test_examples_of_one_label_are_not_learned_again(loss: str, classes: int) -> None:
    """They would only make scores surer, however a feature looks."""
    batch = stream(60, loss)
    batch.labels[:] = 1.0
    chosen: dict[str, Any] = {"loss": loss, "classes": classes}
    found, _ = learned(batch, (0, 60), **chosen)
    once, _ = learned_once(batch, (0, 60), **chosen)
    assert found.census().parents.sum() > 0
    assert str(weights_of(found)) == str(weights_of(once))


@pytest.mark.parametrize(("loss", "classes"), LOSSES)
def test_the_latest_examples_are_learned_again_after_growth(
    loss: str, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if they were given again; what counts or judges examples does not see them."""
    batch = stream(60, loss)
    monkeypatch.setattr(learner_module, "LabelUnits", lambda **_: LabelUnits(standardized=False))
    chosen = {"loss": loss, "classes": classes, "discretise": "none"}
    found, _ = learned(batch, (0, 60), **chosen)
    once, _ = learned_once(batch, (0, 60), **chosen)
    twice, _ = learned_once(batch, (0, 60), (0, 60), **chosen)
    assert found.census().parents.sum() > 0
    assert str(weights_of(found)) == str(weights_of(twice)) != str(weights_of(once))
    learned_again = {"norm", "weight", "occupancy"} | {name for name in once.sums if name.startswith("constant_")}
    seen_once = {name: array.tolist() for name, array in once.sums.items() if name not in learned_again}
    assert {name: found.sums[name].tolist() for name in seen_once} == seen_once
    assert found.features_per_example == once.features_per_example
    assert found.progress.report("whole").loss == once.progress.report("whole").loss


@pytest.mark.parametrize(("loss", "classes"), LOSSES)
def test_batches_and_restarts_of_the_process_do_not_matter(loss: str, classes: int) -> None:
    """However the stream is cut, and whenever a model is read back, digest and scores are the same."""
    batch, chosen = stream(500, loss), {"loss": loss, "classes": classes}
    whole, expected = learned(batch, (0, 500), **chosen)
    for step in (1, 13):
        learner, scores = Learner(whole.options), Scores.empty(500)
        for start in range(0, 500, step):
            learner.learn(batch, start, min(start + step, 500), scores)
            if start % 7 == 0:
                learner = restored(learner)
        assert learner.digest() == whole.digest()
        assert scores.predictions.tobytes() == expected.predictions.tobytes()


def test_what_was_learned_in_other_units_or_before_a_rise_is_not_learned_again() -> None:
    """Labels are kept in units, and after a rise of losses those of before say what does not hold any more."""
    learner, _ = learned(stream(30, "squared"), (0, 30), loss="squared", discretise="none")
    assert learner.units.fixed
    assert learner.sums["recent_counts"][0] == 20
    learner.restart()
    assert learner.sums["recent_counts"].tolist() == [0, 0]


def test_less_is_lost_in_the_beginning() -> None:
    """On streams of a few hundred examples, by a tenth at least in the mean."""
    ratios = []
    for seed in range(5):
        batch = stream(400, seed=seed)
        losses = [np.nanmean(each(batch, (0, 400), loss="logistic")[1].losses) for each in (learned, learned_once)]
        ratios.append(losses[0] / losses[1])
    assert np.mean(ratios) < 0.9
