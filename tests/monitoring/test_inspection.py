"""The view of a model names what there is to find, and its numbers are those of the model."""

import json
import math
import re

import numpy as np
import pytest
from status_page.classes_of_numbers import model_of_numbers
from support.planted_pair import PAIR, finder, planted
from support.records import SETTINGS, good, new_model
from support.snapshots import PLAIN, empty, pointer

from stream_apple.learners.apple.learner import as_apple
from stream_apple.monitoring.inspection import degrees_of, plain, view_model
from stream_apple.monitoring.monomials import name_of
from stream_apple.monitoring.predictors import losses_of
from stream_apple.records.message.feature_hashing import feature_key
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.model.partition_model import ModelSettings
from stream_apple.stream.positions.lineage import SnapshotPointer
from stream_apple.stream.snapshots.codec import SnapshotDecoder, encode_snapshot


def test_the_planted_pair_is_named_first() -> None:
    """The label is the product of two named features: this product heads the list, and its parent the parents."""
    model, names = finder(planted(3000))
    view = view_model(model, names, top=10)
    assert view.monomials.top[0].name == PAIR
    assert view.monomials.products[0] == view.monomials.top[0]
    assert view.monomials.top[0].weight > 1.0
    assert view.monomials.top[0].degree == 2
    (parents,) = view.monomials.tables
    assert parents.columns == ("parent", "children", "gain", "salience", "heaviest child")
    assert (parents.rows[0][0], parents.rows[0][-1]) == ("price", PAIR)
    assert view.monomials.named == 1.0


def test_splines_and_classes_are_shown() -> None:
    """The points of numbers, how each class does, and how wrong each predictor is; bounded; hats have names."""
    model, names = model_of_numbers()
    view, splines_of = view_model(model, names, top=30), as_apple(model.learner).preparation.splines
    (splines,) = (each for each in view.monomials.tables if each.title == "Numbers as splines")
    assert splines.columns[:3] == ("number", "salience", "points")
    (price, of_price, *_), (size, of_size, *_) = splines.rows
    assert (price, size) == ("price", "size")
    assert of_price > of_size > 0  # type: ignore[operator]
    points = [point for row in splines.rows for point in row[2]]  # type: ignore[union-attr]
    assert sorted(points) == sorted(splines_of.points.tolist())
    assert any(re.fullmatch(r"price\u2248\u2212?[\d.]+", each.name) for each in view.monomials.top)
    assert view.monomials.named == 1.0
    assert [each.number for each in view.classes] == [2, 0, 1]
    assert sum(each.start.weight for each in view.classes) == 2000
    assert sum(each.recent.share for each in view.classes) == pytest.approx(1.0)
    errors = sum(each.start.weight * each.start.error for each in view.classes) / 2000
    quality = view.quality["start"]
    assert errors == pytest.approx(quality["published"].error) == pytest.approx(1 - view.losses["start"].label)
    assert 0 < quality["expanded"].error < 0.3
    assert 0 < quality["linear"].error < 0.3
    told = json.loads(json.dumps(view.facts(1), allow_nan=False))
    assert [len(each["rows"]) for each in told["tables"]] == [1, 1]
    assert len(told["classes"]) == 1
    nobody = Names()
    (splines,) = (each for each in view_model(model, nobody, 5).monomials.tables if each.title == "Numbers as splines")
    assert all(str(row[0]).startswith("?") for row in splines.rows)
    assert {feature_key("price"), feature_key("size")} <= nobody.missing


def test_what_is_not_there_is_not_told() -> None:
    """Neither splines nor classes of a model without."""
    model, names = finder(planted(300))
    view = view_model(model, names, top=5)
    assert [each.title for each in view.monomials.tables] == ["Parents, by what their children add"]
    assert view.classes == ()


def test_numbers_are_those_of_the_model() -> None:
    """Counts, losses, degrees and positions agree with the learner's own."""
    model, names = finder(planted(2000))
    learner, pointer = model.learner, SnapshotPointer(5, 1, 2, "f" * 32)
    view = view_model(model, names, top=7, snapshot=pointer)
    assert (view.at, view.examples, view.snapshot) == (2000, 2000, pointer)
    assert (view.epoch, view.ended_epoch, view.digest) == (
        model.clock.epoch,
        model.ended.epoch,
        model.ended.digest,
    )
    assert (
        view.gauges["table_occupied_slots"]
        == as_apple(learner).occupied
        == sum(each.monomials for each in view.monomials.degrees)
    )
    assert view.monomials.degrees == degrees_of(learner.census())
    assert view.losses["start"].loss == learner.progress.report("whole").loss
    assert view.quality["start"]["linear"] == learner.progress.quality("whole")["linear"]
    assert list(view.mixture.weights.values()) == as_apple(learner).mixture_weights().tolist()
    assert sum(view.mixture.shares.values()) == pytest.approx(1.0)
    slots = as_apple(learner).slots()[:-1]
    salience = np.abs(slots["weight"]) * slots["scale"]
    np.testing.assert_allclose([each.salience for each in view.monomials.top], np.sort(salience)[::-1][:7], rtol=1e-6)
    assert view.gauges["constant_weight"] == float(as_apple(learner).slots()["weight"][-1])
    assert len(view.monomials.top) == len(view.monomials.products) == 7
    assert all(each.degree > 1 and each.weights == {"linear": 0.0} for each in view.monomials.products)
    for each in view.monomials.top:
        (place,) = np.flatnonzero((slots["weight"] == each.weight) & (slots["scale"] == each.scale))
        assert (each.mark == "parent") == bool(slots["parent"][place] & 1)
        if each.degree == 1:
            assert each.weights["linear"] == as_apple(learner).table.companions["linear_weight"][place] != 0.0
    assert any(each.degree == 1 for each in view.monomials.top)


def test_one_that_rests_is_no_parent() -> None:
    """It is shown as any other monomial, and counted as none; its products keep their names."""
    model, names = finder(planted(2000))
    before = view_model(model, names, top=20).monomials
    slots = as_apple(model.learner).table.slots
    (parents,) = np.nonzero((slots["parent"][:-1] & 1) != 0)
    slots["parent"][parents] = 8
    after = view_model(model, names, top=20).monomials
    assert any(each.mark for each in before.top)
    assert not any(each.mark for each in after.top)
    assert sum(each.parents for each in before.degrees) == len(parents) > 0
    assert sum(each.parents for each in after.degrees) == 0
    assert after.tables == ()
    assert [each.name for each in after.products] == [each.name for each in before.products]
    assert after.products[0].name == PAIR


@pytest.mark.parametrize("settings", [SETTINGS, PLAIN], ids=["mixed", "plain"])
def test_a_restored_model_shows_what_it_showed(settings: ModelSettings) -> None:
    """Losses of all predictors, AUC, calibration and mixture come with the snapshot; and nothing in a copy moves on."""
    model = empty(settings=settings)
    model.process([good(at, at % 2, hours=at / 50) for at in range(200)])
    copied = model.image().copy()
    snapshot = encode_snapshot(model)
    restored = empty(settings=settings)
    decoder = SnapshotDecoder(restored, pointer(snapshot))
    for message in snapshot.messages:
        decoder.add(message)
    shown, found = (view_model(each, Names(), 5)._replace(seconds=0) for each in (model, restored))
    assert plain(found) == plain(shown)
    assert shown.quality["start"]["published"].auc >= 0.0
    assert shown.quality["last_epoch"]["linear"].auc >= 0.0
    before = {name: array.tobytes() for name, array in copied.observed.items()}
    model.process([good(at, at % 2, hours=at / 50) for at in range(200, 300)])
    assert {name: array.tobytes() for name, array in copied.observed.items()} == before
    assert {name: array.tobytes() for name, array in model.image().observed.items()} != before


def test_looking_changes_nothing() -> None:
    """A model that is looked at has the digest that it had."""
    model, names = finder(planted(1000))
    before = model.digest()
    view_model(model, names, top=50)
    assert model.digest() == before


def test_features_without_names_are_told_by_their_keys() -> None:
    """What was never seen by name has hex digits, is counted, and is asked for."""
    model, names = finder(planted(1000))
    nothing = Names()
    view = view_model(model, nothing, top=5)
    assert view.monomials.named == 0.0
    assert view.monomials.top[0].factors[0].startswith("?")
    assert len(view.monomials.top[0].factors[0]) == 17
    assert nothing.missing
    nothing.add(names.known().items())
    assert nothing.missing == frozenset()
    assert view_model(model, nothing, top=5).monomials.named == 1.0


def test_an_empty_model_has_a_view() -> None:
    """Before the first example there is nothing to show, and no error."""
    view = view_model(new_model(), Names(), top=5)
    assert view.monomials[:4] == ((), (), (), ())
    assert view.epoch == -1
    assert math.isnan(view.losses["recent"].loss)
    told = json.loads(json.dumps(view.facts(5), allow_nan=False))
    assert told["losses"]["recent"]["loss"] is None
    assert told["quality"]["recent"]["linear"]["auc"] is None
    assert told["lineage"] == {"start": 0, "model": "0123456789abcdef", "gaps": [], "skips": []}


def test_losses_have_all_spans() -> None:
    """The four spans that metrics have."""
    model, _ = finder(planted(500))
    assert list(losses_of(model.learner)) == ["start", "epoch", "last_epoch", "recent"]


@pytest.mark.parametrize(
    ("factors", "name"),
    [
        (("a",), "a"),
        (("a", "b"), "a \u00d7 b"),
        (("a", "a", "b"), "a\u00b2 \u00d7 b"),
        (("a",) * 12, "a\u00b9\u00b2"),
        (("a", "?", "?"), "a \u00d7 ? \u00d7 ?"),
    ],
)
def test_products_read_as_people_write_them(factors: tuple[str, ...], name: str) -> None:
    """Powers are powers; unknown factors need not be the same one."""
    assert name_of(factors) == name
