"""With the option `centre` numbers are centred from a few examples on, by mean and deviation, until cuts are made."""

import numpy as np
import pytest
from learners.apple.preparation.test_discretisation import BY_KEY, as_learned, rows_of
from learners.apple.test_learner import batch_of, key

from stream_apple.core.batch import BIN, Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.preparation.derived_names import Derived
from stream_apple.learners.apple.preparation.intervals import CENTRED, REACH
from stream_apple.learners.apple.preparation.preparation import Preparation
from stream_apple.learners.scores import Scores

SIZE, CENTRE, CUTS = 300, 5, 50
OPTIONS = Options(loss="logistic", bits=10, discretise="auto")
WITHOUT = Options(loss="logistic", bits=10, discretise="auto", rehearsal="off")
ROWS = rows_of(SIZE, 31)
LEARNED = [at for at, row in enumerate(ROWS) if row.label is not None and row.weight]


def prepared(options: Options = OPTIONS) -> tuple[Preparation, Batch]:
    """What becomes of the rows when they are learned at once."""
    preparation = Preparation(options)
    return preparation, as_learned(preparation, batch_of(ROWS), 0, SIZE)


def features_of(batch: Batch, row: int, names: dict[int, Derived]) -> dict[str, tuple[float, int]]:
    """A row's features: "dense" as it is, "dense~" centred, "dense[" an interval of it; value and role."""
    found = {}
    for at in range(batch.indptr[row], batch.indptr[row + 1]):
        made = names.get(int(batch.keys[at]))
        name = BY_KEY[int(batch.keys[at]) if made is None else made.feature]
        kind = "" if made is None else "[" if "\u2208" in made.ending else "~"
        found[name + kind] = (float(batch.values[at]), int(batch.roles[at]) if len(batch.roles) else 0)
    return found


def test_numbers_are_centred_early_and_cut_later() -> None:
    """As they are for five learned examples; then less their mean over their deviation; from the 50th on cut, too."""
    preparation, batch = prepared()
    names = preparation.derived_names()
    seen = [features_of(batch, row, names) for row in range(SIZE)]
    raw, centred, cut = ([name in found for found in seen] for name in ("dense", "dense~", "dense["))
    assert raw == [at <= LEARNED[CENTRE - 1] for at in range(SIZE)]
    # A value that is the mean to the bit would be 0, and none is.
    assert centred == [at > LEARNED[CENTRE - 1] for at in range(SIZE)]
    assert cut == [at > LEARNED[CUTS - 1] for at in range(SIZE)]


@pytest.mark.parametrize(
    ("options", "number", "examples"),
    [
        *((WITHOUT, *each) for each in [(6, 5), (12, 10), (25, 20), (48, 40), (60, 50), (200, 50)]),
        *(
            (OPTIONS, *each)
            for each in [(5, 5), (6, 6), (8, 8), (9, 8), (11, 10), (13, 12), (40, 33), (45, 41), (60, 50)]
        ),
    ],
)
def test_by_mean_and_deviation_of_the_examples_so_far(options: Options, number: int, examples: int) -> None:
    """Of the first 5 learned ones, then of a quarter more; without rehearsal of twice as many; never above REACH."""
    preparation, batch = prepared(options)
    row = LEARNED[number]
    values = np.array([ROWS[at].features["dense"] for at in LEARNED[:examples]])
    expected = (ROWS[row].features["dense"] - values.mean()) / values.std()
    value, role = features_of(batch, row, preparation.derived_names())["dense~"]
    assert value == pytest.approx(np.clip(expected, -REACH, REACH), abs=1e-5)
    assert role == 0


def test_a_centred_number_is_one_feature() -> None:
    """Whatever mean and deviation are: what was learned before cuts were made stays."""
    preparation, batch = prepared()
    made = [key for key, each in preparation.derived_names().items() if each.ending[0] in "+\u2212"]
    assert len(made) == np.count_nonzero(preparation.intervals.kept == CENTRED) == 2  # dense, and with zeros
    early = set(batch.keys[batch.indptr[LEARNED[CENTRE]] : batch.indptr[LEARNED[CUTS - 1]]].tolist())
    late = set(batch.keys[batch.indptr[LEARNED[CUTS]] :].tolist())
    assert set(made) <= early & late


def test_indicators_are_not_multiplied_with_themselves() -> None:
    """What has the value 1 and is no number has the role of an interval, before cuts are made and afterwards."""
    preparation, batch = prepared()
    for row in range(SIZE):
        found = features_of(batch, row, preparation.derived_names())
        assert all(role == BIN for name, (_, role) in found.items() if name == "flag")
        assert all(role == 0 for name, (_, role) in found.items() if name == "unit" or name.endswith("~"))
    learner = Learner(Options(loss="logistic", bits=10, discretise="auto", early_growth=60))
    learner.learn(batch_of(ROWS), 0, SIZE, Scores.empty(SIZE))
    learner.end_epoch()
    learner.learn(batch_of(ROWS), 0, SIZE, Scores.empty(SIZE))
    keys = set(learner.slots()["key"].tolist())
    assert key("flag") in keys
    assert (2 * key("flag")) % (1 << 64) not in keys
    assert learner.census().monomials[2:].sum() > 0


@pytest.mark.parametrize("step", [1, 7, 64])
def test_batches_do_not_matter(step: int) -> None:
    """However the rows are cut, and wherever the state is taken up again, scores and digest are the same."""
    batch = batch_of(ROWS)
    whole, expected = Learner(OPTIONS), Scores.empty(SIZE)
    whole.learn(batch, 0, SIZE, expected)
    parts, found = Learner(OPTIONS), Scores.empty(SIZE)
    for start in range(0, SIZE, step):
        parts.learn(batch, start, min(start + step, SIZE), found)
        again = Preparation(OPTIONS)
        again.restore({name: array.copy() for name, array in parts.preparation.arrays.items()})
        assert again.derived_names() == parts.preparation.derived_names()
        parts.preparation = again
    assert np.array_equal(found.predictions, expected.predictions)
    assert parts.digest() == whole.digest()
