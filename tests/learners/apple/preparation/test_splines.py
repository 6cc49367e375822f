"""Numbers become hats and values: which, how large, by which keys and names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learners.apple.preparation.tables import prepared, rows_of
from learners.apple.test_learner import Row, batch_of, key

from stream_apple.core.batch import BIN, TOO_LARGE
from stream_apple.learners.apple.preparation.splines import LEAST_HAT, REACH, centered_keys, hat_keys

LARGEST = float(np.nextafter(np.float32(TOO_LARGE), np.float32(0)))
LEARNED, _ = prepared(rows_of(300, 21))


def number_of(name: str) -> int:
    """The feature's number among the splines."""
    return int(np.flatnonzero(LEARNED.splines.features == key(name))[0])


def points_of(name: str) -> np.ndarray:
    """The points of a feature's spline."""
    return LEARNED.splines.points_of_each()[number_of(name)]


def hats_of(name: str, value: float) -> dict[int, float]:
    """What hats of a feature an example with this value has, by the number of the point."""
    batch = LEARNED.prepare(batch_of([Row({name: value}, 1.0, 1.0)]), 0, 1)
    keys, found = hat_keys(key(name), points_of(name)).tolist(), batch.keys.tolist()
    hats = {keys.index(each): at for at, each in enumerate(found) if each in keys}
    assert all(batch.roles[at] == BIN for at in hats.values())
    return {number: float(batch.values[at]) for number, at in hats.items()}


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
    """At a point, and beyond the outer ones, the hat is 1, and no other is above 0."""
    points = points_of("dense").tolist()
    assert len(points) == 6
    assert [hats_of("dense", each) for each in points] == [{at: 1.0} for at in range(6)]
    assert hats_of("dense", -LARGEST) == {0: 1.0}
    assert hats_of("dense", LARGEST) == {5: 1.0}


def test_an_absent_number_is_0_if_it_is_dense() -> None:
    """Of a number that is not dense, an example that lacks it has no hat."""
    batch = LEARNED.prepare(batch_of([Row({"flag": 1.0}, 1.0, 1.0)]), 0, 1)
    assert points_of("zeros")[0] == 0.0
    assert hat_keys(key("zeros"), points_of("zeros"))[0] in batch.keys
    assert not np.isin(hat_keys(key("rare"), points_of("rare")), batch.keys).any()
    dense = dict(zip(LEARNED.splines.features.tolist(), LEARNED.splines.dense.tolist(), strict=True))
    assert dense == {key("dense"): 1, key("zeros"): 1, key("rare"): 0}


@pytest.mark.parametrize("value", [-LARGEST, -1.0, 0.25, 2.0, LARGEST])
def test_values_of_dense_numbers_are_centered_and_clipped(value: float) -> None:
    """Less the mean, in units of the deviation; those of other numbers stay as they are."""
    at = number_of("dense")
    expected = np.clip((value - LEARNED.splines.centers[at]) / LEARNED.splines.widths[at], -REACH, REACH)
    batch = LEARNED.prepare(batch_of([Row({"dense": value, "rare": value}, 1.0, 1.0)]), 0, 1)
    found = dict(zip(batch.keys.tolist(), zip(batch.values.tolist(), batch.roles.tolist(), strict=True), strict=True))
    centered = int(centered_keys(LEARNED.splines.features)[at])
    assert found[centered] == (pytest.approx(expected, rel=1e-6), 0)
    assert found[key("rare")] == (np.float32(value), 0)
    assert key("dense") not in found


def test_keys_are_of_a_point_and_its_neighbors() -> None:
    """The same hat among other points has the same key; one with another neighbor another, as another feature's."""
    points = np.array([1.0, 2.0, 3.0, 4.0, 5.0], np.float32)
    many, few = hat_keys(5, points).tolist(), hat_keys(5, points[1:]).tolist()
    assert many[2:] == few[1:]
    assert few[0] not in many
    assert len({*many, *hat_keys(6, points).tolist(), *centered_keys(np.array([5, 6], np.uint64)).tolist()}) == 12
    assert not len(hat_keys(5, points[:0]))


def test_names_of_hats_and_centered_values() -> None:
    """By the value at which a hat is 1, and by what was subtracted."""
    names, splines = LEARNED.derived_names(), LEARNED.splines
    keys, points = hat_keys(key("zeros"), points_of("zeros")).tolist(), points_of("zeros").tolist()
    assert [names[each] for each in keys] == [(key("zeros"), f"\u2248{point:.6g}") for point in points]
    centered = dict(zip(splines.features.tolist(), centered_keys(splines.features).tolist(), strict=True))
    assert names[centered[key("zeros")]] == (key("zeros"), f"\u2212{splines.centers[number_of('zeros')]:.6g}")
    assert centered[key("rare")] not in names
