"""Which features of the first examples are numbers, when they are centered and get points, and where these are."""

import numpy as np
import pytest
from learners.apple.preparation.tables import BY_KEY, as_learned, learned_of, named, prepared, rows_of
from learners.apple.test_learner import Row, key
from support.bare_options import bare

from stream_apple.core.batch import BIN, Batch
from stream_apple.learners.apple.options import MOST_FIRST_FEATURES
from stream_apple.learners.apple.preparation.first_examples import CENTERED_AFTER, FITTED_AFTER, spline_points
from stream_apple.learners.apple.preparation.preparation import Preparation
from stream_apple.learners.apple.preparation.splines import REACH

SIZE = 300
ROWS = rows_of(SIZE, 31)
LEARNED = learned_of(ROWS)


def test_numbers_are_centered_early_and_get_points_later() -> None:
    """As they are for five learned examples; then less their mean over their deviation; from the 41st on with hats."""
    preparation, batch = prepared(ROWS)
    seen = [named(preparation, batch, row) for row in range(SIZE)]
    assert ["dense" in found for found in seen] == [at <= LEARNED[CENTERED_AFTER - 1] for at in range(SIZE)]
    centered = ["dense~" in found for found in seen]  # a value that is the mean to the bit has none
    assert centered == [at > LEARNED[CENTERED_AFTER - 1] for at in range(SIZE)]
    hats = [any("\u2248" in name for name in found) for found in seen]
    assert hats == [at > LEARNED[FITTED_AFTER - 1] for at in range(SIZE)]


@pytest.mark.parametrize(
    ("number", "examples"),
    [(5, 5), (6, 6), (8, 8), (9, 8), (11, 10), (13, 12), (30, 27), (39, 33), (40, 40), (60, 40), (200, 40)],
)
def test_by_mean_and_deviation_of_the_examples_so_far(number: int, examples: int) -> None:
    """Of the first 5 learned ones, then of a quarter more; never above REACH."""
    preparation, batch = prepared(ROWS)
    row = LEARNED[number]
    values = np.array([ROWS[at].features["dense"] for at in LEARNED[:examples]])
    expected = (ROWS[row].features["dense"] - values.mean()) / values.std()
    found, role = named(preparation, batch, row)["dense~"]
    assert role == 0
    assert found == pytest.approx(np.clip(expected, -REACH, REACH), abs=1e-5)


def test_which_features_are_numbers() -> None:
    """Those of several values that three examples have; before they get points, two examples and only dense ones."""
    rows = rows_of(SIZE, 31)
    preparation, _ = prepared(rows)
    splines = preparation.splines
    dense = {
        BY_KEY[each]: bool(own) for each, own in zip(splines.features.tolist(), splines.dense.tolist(), strict=True)
    }
    assert dense == {"dense": True, "zeros": True, "rare": False}
    preparation, _ = prepared(rows[: LEARNED[11] + 1])
    assert {BY_KEY[each] for each in preparation.splines.features.tolist()} == {"dense", "zeros", "seldom"}
    assert not len(preparation.splines.points)


def test_a_centered_number_is_one_feature() -> None:
    """Whatever mean and deviation are: what was learned before it got points stays."""
    preparation, batch = prepared(ROWS)
    (own,) = (each for each, made in preparation.derived_names().items()
              if made.key == key("dense") and "\u2248" not in made.ending)  # fmt: skip
    after = batch.indptr[LEARNED[CENTERED_AFTER - 1] + 1]
    assert np.count_nonzero(batch.keys[after:] == own) == SIZE - LEARNED[CENTERED_AFTER - 1] - 1


def test_indicators_are_not_multiplied_with_themselves() -> None:
    """What has the value 1 and is no number is a BIN, as hats are, from the first example on."""
    preparation, batch = prepared(ROWS)
    for row in range(SIZE):
        for name, (value, role) in named(preparation, batch, row).items():
            whole = name in BY_KEY.values() and value == 1.0
            assert role == (BIN if whole or "\u2248" in name else 0), name


def test_words_have_no_splines() -> None:
    """A text's words have many weights too; but most of them are absent from most texts. In a table they have."""
    rng, rows = np.random.default_rng(12), []
    for number in range(100):
        words = {f"w{each}": float(np.float32(rng.uniform(0.1, 1))) for each in rng.integers(0, 40, 8)}
        words["the"] = float(np.float32(rng.uniform(0.1, 1)))
        rows.append(Row(words, float(number % 2), 1.0))
    preparation, batch = prepared(rows)
    assert preparation.settled
    assert not len(preparation.splines.features)
    assert batch.values[batch.indptr[40] :].tolist() == [each for row in rows[40:] for each in row.features.values()]
    columns = [{f"c{each}": float(rng.integers(1, 30)) for each in range(12)} for _ in rows]
    both = [row._replace(features={**row.features, **more}) for row, more in zip(rows, columns, strict=True)]
    assert len(prepared(both)[0].splines.features) > 40


def test_the_first_examples_are_bounded() -> None:
    """Numbers get their points before the example that no longer fits, and the examples are forgotten."""
    size = 7_000
    most = MOST_FIRST_FEATURES // size
    count = most + 3
    batch = Batch(
        np.arange(count + 1) * size,
        np.tile(np.arange(1, size + 1, dtype=np.uint64), count),
        np.repeat(np.arange(1, count + 1), size).astype(np.float32),
        np.where(np.arange(count) % 2, 1.0, -1.0),
        np.ones(count),
    )
    states = []
    for step in (1, 2, count):
        preparation = Preparation(bare(discretise="spline"))
        for start in range(0, count, step):
            as_learned(preparation, batch, start, min(start + step, count))
            kept = len(preparation.arrays["first_labels"])
            assert kept == (min(start + step, count) if start + step <= most else 0)
        assert preparation.splines.points.tolist() == [1.0, 2.0, 3.0, 4.0] * size
        states.append({name: array.tobytes() for name, array in preparation.arrays.items()})
    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("most", [2, 6, 64])
def test_points_of_splines_reach_from_end_to_end(most: int) -> None:
    """The least value and the largest, and quantiles between, so that there are as many values between each two."""
    values = np.random.default_rng(most).lognormal(size=777).astype(np.float32)
    quantiles = np.quantile(values, np.arange(1, most - 1) / (most - 1), method="lower")
    assert spline_points(values, most).tolist() == [values.min(), *quantiles.tolist(), values.max()]


def test_points_where_values_are_few_or_one_is_frequent() -> None:
    """Few values are a point each; one that most examples have is a point, and so is the next above it."""
    few = np.repeat(np.array([-3.0, 0.0, 0.5, 9.0], np.float32), [1, 500, 2, 30])
    assert spline_points(few, 4).tolist() == [-3.0, 0.0, 0.5, 9.0]
    frequent = np.concatenate([np.zeros(400), np.arange(1, 101)]).astype(np.float32)
    assert spline_points(frequent, 6).tolist() == [0.0, 1.0, 100.0]
    assert str(spline_points(np.array([-0.0, 1.0], np.float32), 6)[0]) == "0.0"
