"""One pass of River's models: what they are given, and what is counted."""

import subprocess
from importlib.metadata import version

import numpy as np
import pytest
from support.required import unavailable

from stream_apple.core.batch import Batch
from study.methods import installed_version
from study.runs.one_pass import StreamLearner, pass_over
from study.runs.river_pass import DENSE_UP_TO, RIVER_MODELS, dictionaries_of, learn_progressively, numbered


class Recorder:
    """Says what it is told to say, and notes what is asked of it."""

    def __init__(self, said: list[bool | None]) -> None:
        self._said = iter(said)
        self.calls: list[tuple[str, dict[int, float], bool | None]] = []

    def predict_one(self, x: dict[int, float], /) -> bool | None:
        """As it was told."""
        self.calls.append(("predict", x, None))
        return next(self._said)

    def learn_one(self, x: dict[int, float], y: bool, /) -> None:  # noqa: FBT001  River's
        """Nothing."""
        self.calls.append(("learn", x, y))


def batch_from(examples: list[tuple[float, dict[int, float]]]) -> Batch:
    """Of (label, number of the feature -> value)."""
    indptr = np.array([0, *np.cumsum([len(features) for _, features in examples])], np.int64)
    hashes = np.sort(np.random.default_rng(1).integers(1, 1 << 63, 12, np.uint64))
    keys = hashes[[number for _, features in examples for number in features]]
    values = np.array([value for _, features in examples for value in features.values()], np.float32)
    return Batch(indptr, keys, values, np.array([label for label, _ in examples]), np.ones(len(examples)))


ROWS = numbered(batch_from([(1.0, {2: 0.5}), (-1.0, {0: 1.0, 1: -2.0}), (-1.0, {}), (1.0, {1: 4.0})]))


def planted(examples: int) -> Batch:
    """The label is whether the first of four numbers is above 0."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=(examples, 4))
    return batch_from([(1.0 if x[0] > 0 else -1.0, dict(enumerate(x.tolist()))) for x in values])


def test_zeros_are_given_where_features_are_few() -> None:
    """River's trees take what is missing for unknown; where features are many, nobody could wait for it."""
    assert [x for x, _ in dictionaries_of(ROWS)] == [
        {0: 0.0, 1: 0.0, 2: 0.5}, {0: 1.0, 1: -2.0, 2: 0.0}, {0: 0.0, 1: 0.0, 2: 0.0}, {0: 0.0, 1: 4.0, 2: 0.0},
    ]  # fmt: skip
    wide = ROWS._replace(size=DENSE_UP_TO + 1)
    assert [x for x, _ in dictionaries_of(wide)] == [{2: 0.5}, {0: 1.0, 1: -2.0}, {}, {1: 4.0}]
    assert [positive for _, positive in dictionaries_of(wide)] == [True, False, False, True]


def test_each_is_predicted_before_it_is_learned() -> None:
    """In order; no opinion is the smaller label, and counts as right or wrong like any other."""
    model = Recorder([None, None, True, True])
    found = learn_progressively(model, ROWS)
    assert found["error"] == 2 / 4  # the first by having no opinion, the third by a wrong one
    assert [(name, y) for name, _, y in model.calls] == [
        call for _, positive in dictionaries_of(ROWS) for call in (("predict", None), ("learn", positive))
    ]
    assert found["seconds"] > 0


@pytest.fixture
def river() -> None:
    """What needs River itself."""
    if installed_version("river") is None:
        unavailable("River is not installed: pip install --editable '.[study]'")


@pytest.mark.usefixtures("river")
@pytest.mark.parametrize("model", RIVER_MODELS)
def test_river_learns(model: str) -> None:
    """Each of its models beats a coin on what is easy, with fixed seeds."""
    rows = numbered(planted(400))
    found, again = (learn_progressively(RIVER_MODELS[model](), rows)["error"] for _ in range(2))
    assert found == again < 0.25


@pytest.mark.usefixtures("river")
def test_river_learns_in_a_process_of_its_own() -> None:
    """What is learned in this process; and it says what it took."""
    rows, model = planted(400), "adaptive-random-forest"
    found = pass_over(StreamLearner(river=model), rows)
    assert found.error == learn_progressively(RIVER_MODELS[model](), numbered(rows))["error"]
    assert found.examples == 400
    assert found.seconds > 0
    assert found.megabytes is not None
    assert 0 <= found.megabytes < 500


@pytest.mark.usefixtures("river")
def test_the_version_is_river_s() -> None:
    """By which its results are kept."""
    assert installed_version("river") == version("river")


def test_the_product_s_error_is_progressive() -> None:
    """Both losses; what is learned later can't help what came before."""
    rows = planted(600)
    for options in ({"loss": "logistic", "method": "linear"}, {"method": "linear"}):
        learner = StreamLearner(options=options)
        found = pass_over(learner, rows)
        half = pass_over(learner, rows.select(np.arange(300)))
        assert found.error < 0.1
        assert 0 < round(300 * half.error) <= round(600 * found.error)
        assert found.megabytes == pytest.approx(16, abs=1)  # one and a fifth of it for labels that come late


def test_vowpal_wabbit_is_given_the_same() -> None:
    """Its error is ours: same examples, order, rate and bits, and the logistic loss."""
    pytest.importorskip("vowpalwabbit")
    rng = np.random.default_rng(3)
    rows = batch_from([
        (1.0 if rng.random() < 0.3 + 0.4 * (0 in chosen) else -1.0, {i: float(rng.normal()) for i in chosen})
        for chosen in (sorted(rng.permutation(12)[: rng.integers(7)].tolist()) for _ in range(500))
    ])  # fmt: skip
    for arguments, method in (((), "linear"), (("-q", "::"), "quadratic")):
        theirs = pass_over(StreamLearner(arguments=arguments), rows)
        ours = pass_over(StreamLearner(options={"loss": "logistic", "method": method}), rows)
        assert theirs.error == ours.error
        assert theirs.seconds > 0


def test_a_model_that_fails_is_not_passed_over() -> None:
    """An unknown one, say: the process ends with a fault, and so does the experiment."""
    with pytest.raises(subprocess.CalledProcessError):
        pass_over(StreamLearner(river="oracle"), planted(3))
