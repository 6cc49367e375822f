"""Values become hats: which, how large, by which keys and names; and what splines learn that intervals can't."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learners.apple.preparation.test_discretisation import as_learned, rows_of
from learners.apple.test_learner import Row, batch_of, key
from support.bare_options import bare

from stream_apple.core.batch import BIN, TOO_LARGE
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.preparation.intervals import CENTRED, LEAST_HAT, RAW, hat_keys, interval_keys
from stream_apple.learners.apple.preparation.preparation import Preparation
from stream_apple.learners.scores import Scores

LARGEST = float(np.nextafter(np.float32(TOO_LARGE), np.float32(0)))


def preparation_of(rows: list[Row]) -> Preparation:
    """One that has learned these rows."""
    preparation = Preparation(bare(discretise="spline", reservoir=200))
    as_learned(preparation, batch_of(rows), 0, len(rows))
    return preparation


LEARNED = preparation_of(rows_of(300, 21))


def points_of(name: str) -> np.ndarray:
    """The points of a feature's spline."""
    intervals = LEARNED.intervals
    at = intervals.features.tolist().index(key(name))
    return intervals.cuts[intervals.ends[at - 1] if at else 0 : intervals.ends[at]]


def hats_of(name: str, value: float) -> dict[int, float]:
    """What hats of a feature an example with this value has, by the number of the point."""
    batch = LEARNED.prepare(batch_of([Row({name: value}, 1.0, 1.0)]))
    keys, points = hat_keys(key(name), points_of(name)).tolist(), batch.keys.tolist()
    found = {keys.index(each): at for at, each in enumerate(points) if each in keys}
    assert all(batch.roles[at] == BIN for at in found.values())
    return {number: float(batch.values[at]) for number, at in found.items()}


@given(st.floats(-LARGEST, LARGEST, width=32).filter(bool) | st.floats(-4, 4, width=32).filter(bool))
def test_hats_are_those_of_linear_interpolation(value: float) -> None:
    """Each is 1 at its point and 0 at the next ones, as numpy interpolates; the least are left out."""
    points = points_of("dense").astype(np.float64)
    whole = [float(np.interp(value, points, unit)) for unit in np.eye(len(points))]
    expected = {at: share for at, share in enumerate(whole) if share >= LEAST_HAT}
    found = hats_of("dense", value)
    near = {at for at, share in enumerate(whole) if abs(share - LEAST_HAT) < 1e-6}
    assert found.keys() - near == expected.keys() - near
    assert all(found[at] == pytest.approx(whole[at], abs=1e-6) for at in found)
    assert 0.9 - 1e-6 <= sum(found.values()) <= 1.0 + 1e-6


def test_a_point_is_one_hat() -> None:
    """At a point, and beyond the outer ones, the hat is 1, and none beside it."""
    points = points_of("dense").tolist()
    assert len(points) == 6
    assert [hats_of("dense", each) for each in points] == [{at: 1.0} for at in range(6)]
    assert hats_of("dense", -LARGEST) == {0: 1.0}
    assert hats_of("dense", LARGEST) == {5: 1.0}


def test_what_is_absent_is_0() -> None:
    """Of a number that a tenth of the examples have; of rarer ones an example that lacks it has no hat."""
    batch = LEARNED.prepare(batch_of([Row({"flag": 1.0}, 1.0, 1.0)]))
    of_zeros = hat_keys(key("zeros"), points_of("zeros"))
    assert points_of("zeros")[0] == 0.0
    assert of_zeros[0] in batch.keys
    assert not np.isin(hat_keys(key("rare"), points_of("rare")), batch.keys).any()
    kept = dict(zip(LEARNED.intervals.features.tolist(), LEARNED.intervals.kept.tolist(), strict=True))
    assert kept == {key("dense"): CENTRED, key("zeros"): CENTRED, key("rare"): RAW, key("seldom"): RAW}


def test_keys_are_of_a_point_and_those_beside_it() -> None:
    """The same hat among other points has the same key; one with another neighbour another, as another feature's."""
    points = np.array([1.0, 2.0, 3.0, 4.0, 5.0], np.float32)
    many, few = hat_keys(5, points).tolist(), hat_keys(5, points[1:]).tolist()
    assert many[2:] == few[1:]
    assert few[0] not in many
    assert len({*many, *hat_keys(6, points).tolist(), *interval_keys(5, points).tolist()}) == 16
    assert not len(hat_keys(5, points[:0]))


def test_names_of_hats() -> None:
    """By the value at which they are 1."""
    names = LEARNED.derived_names()
    keys, points = hat_keys(key("zeros"), points_of("zeros")).tolist(), points_of("zeros").tolist()
    assert [names[each] for each in keys] == [(key("zeros"), f"\u2248{point:.6g}") for point in points]


def test_a_spline_has_no_jumps() -> None:
    """A smooth function of one number is learned better than by as many intervals, with fewer steps between values."""
    rng = np.random.default_rng(4)
    values = rng.uniform(-2, 2, 4000).astype(np.float32)
    rows = [Row({"x": float(value)}, float(np.sin(2 * value)), 1.0) for value in values]
    batch, losses = batch_of(rows), {}
    for discretise in ("auto", "spline"):
        learner = Learner(bare(method="linear", discretise=discretise, centre=5, reservoir=100))
        scores = Scores.empty(4000)
        learner.learn(batch, 0, 4000, scores)
        losses[discretise] = float(scores.losses[2000:].mean())
    assert losses["spline"] < 0.5 * losses["auto"]
