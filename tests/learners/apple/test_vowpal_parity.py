"""Linear, quadratic and cubic runs are Vowpal Wabbit's, example by example."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.oracles import vowpal
from support.required import SharedFile

from stream_apple.core.batch import Batch, Limits
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import LossName, Method, Options
from stream_apple.learners.scores import Scores
from stream_apple.offline.dataset import read_batch

PLANTED = Path(__file__).parents[2] / "bench" / "planted.py"
LIMITS = Limits(100_000, 1 << 30, 1e6, -1e9, 1e9, binary=False)
CLASSES = ("planted", "a9a", "magic04", "covtype", "letter", "rcv1-vwsample", "mushroom")
REGRESSIONS = ("abalone-reg", "cal-housing")
BITS = 20
THEIR_BITS = 25  # VW's features share a weight where their hashes agree: room enough that few do


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """2,500 examples of the planted benchmark."""
    path = tmp_path_factory.mktemp("planted") / "planted.vw"
    subprocess.run([sys.executable, PLANTED, "2500", path], check=True)
    return read_batch([path], LIMITS)


def real(shared: SharedFile, name: str) -> Batch:
    """A real set in a fixed random order, at most 2,500 rows."""
    return _some_of(shared(f"data/{name}.svm.gz"))


@cache
def _some_of(path: Path) -> Batch:
    batch = read_batch([path], LIMITS)
    order = np.random.default_rng(1).permutation(len(batch.labels))
    return batch.select(order[:2_500])


def with_weights(batch: Batch) -> Batch:
    """The batch with importance weights from a tenth to ten."""
    weights = np.random.default_rng(2).choice([0.1, 0.5, 1.0, 2.0, 10.0], len(batch.labels))
    return batch._replace(weights=weights)


def compare(
    batch: Batch, tmp_path: Path, method: Method, loss: LossName, arguments: list[str], per_example: float, mean: float
) -> None:
    """Learn the batch with both and compare every prediction, and the progressive loss."""
    if loss == "logistic":
        batch = batch._replace(labels=np.where(batch.labels > batch.labels.min(), 1.0, -1.0))
    learner = Learner(Options(method=method, loss=loss, bits=BITS))
    scores = Scores.empty(len(batch.labels))
    learner.learn(batch, 0, len(batch.labels), scores)
    text = vowpal.write_text(batch, tmp_path / "examples.vw", numbered=method == "linear")
    theirs = vowpal.run(text, ["-b", str(THEIR_BITS), "--loss_function", loss, *arguments])
    # Labels may have any size; tolerances are for a label range of 1.
    span = max(1.0, float(np.ptp([0.0, *batch.labels])))
    error = np.abs(scores.predictions - theirs.predictions).max()
    assert error <= per_example * span
    assert abs(learner.progress.report("whole").loss - theirs.loss) <= mean * span**2
    assert learner.evicted == learner.deferred == learner.truncated == 0


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(
    ("name", "loss"),
    [(name, "squared") for name in CLASSES + REGRESSIONS] + [(name, "logistic") for name in CLASSES],
)
def test_linear_equals_vowpal_wabbit(
    name: str,
    loss: LossName,
    weighted: bool,  # noqa: FBT001
    shared: SharedFile,
    planted: Batch,
    tmp_path: Path,
) -> None:
    """Squared: 1e-4 a prediction, 1e-5 in the mean; logistic: 1e-3 and 1e-4 (VW approximates Lambert's W)."""
    batch = planted if name == "planted" else real(shared, name)
    tolerances = (1e-4, 1e-5) if loss == "squared" else (1e-3, 1e-4)
    compare(with_weights(batch) if weighted else batch, tmp_path, "linear", loss, [], *tolerances)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("quadratic", "a9a"),
        ("quadratic", "magic04"),
        ("quadratic", "letter"),
        ("cubic", "magic04"),  # a9a has 27,000 products of three: VW has no hash space in which none collide
        ("cubic", "letter"),
    ],
)
def test_interactions_equal_vowpal_wabbit(
    method: Method, name: str, loss: LossName, shared: SharedFile, tmp_path: Path
) -> None:
    """All products up to the degree: VW's features are ours, one for one, so the tolerances hold here too."""
    arguments = {"quadratic": ["-q", "::"], "cubic": ["-q", "::", "--cubic", ":::"]}[method]
    batch = real(shared, name).select(np.arange(2_000))
    tolerances = (1e-4, 1e-5) if loss == "squared" else (1e-3, 1e-4)
    compare(batch, tmp_path, method, loss, arguments, *tolerances)
