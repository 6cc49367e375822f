"""The view of a model names what there is to find, and its numbers are those of the model."""

import json
import math

import numpy as np
import pytest
from runtime.planted_pair import PAIR, finder, planted
from runtime.records import new_model

from stream_apple.core.names import Names
from stream_apple.runtime.inspection import inspect, losses_of, name_of, plain
from stream_apple.runtime.lineage import Pointer


def test_the_planted_pair_is_named_first() -> None:
    """The label is the product of two named features: this product heads the list, and its parent the parents."""
    model, names = finder(planted(3000))
    view = inspect(model, names, top=10)
    assert view.top[0].name == PAIR
    assert view.products[0] == view.top[0]
    assert view.top[0].weight > 1.0
    assert view.top[0].degree == 2
    assert view.parents[0].name == "price"
    assert view.parents[0].heaviest == PAIR
    assert view.named == 1.0


def test_numbers_are_those_of_the_model() -> None:
    """Counts, losses, degrees and positions agree with the learner's own."""
    model, names = finder(planted(2000))
    learner, pointer = model.learner, Pointer(5, 1, 2, "f" * 32)
    view = inspect(model, names, top=7, snapshot=pointer)
    assert (view.at, view.examples, view.snapshot) == (2000, 2000, pointer)
    assert (view.epoch, view.ended_epoch, view.digest) == (model.clock.epoch, model.ended_epoch, model.epoch_digest)
    assert view.fill.occupied == learner.occupied == sum(each.monomials for each in view.degrees)
    assert [each.parents for each in view.degrees] == learner.parents_by_degree()[1:].tolist() + [0] * (
        len(view.degrees) + 1 - len(learner.parents_by_degree())
    )
    assert view.losses["start"].loss == learner.progress.progressive_loss
    slots = learner.slots()[:-1]
    salience = np.abs(slots["weight"]) * slots["scale"]
    np.testing.assert_allclose([each.salience for each in view.top], np.sort(salience)[::-1][:7], rtol=1e-6)
    assert view.constant == float(learner.slots()["weight"][-1])
    assert len(view.top) == len(view.products) == 7
    assert all(each.degree > 1 for each in view.products)


def test_looking_changes_nothing() -> None:
    """A model that is looked at has the digest that it had."""
    model, names = finder(planted(1000))
    before = model.digest()
    inspect(model, names, top=50)
    assert model.digest() == before


def test_features_without_names_are_told_by_their_keys() -> None:
    """What was never seen by name has hex digits, is counted, and is asked for."""
    model, names = finder(planted(1000))
    nothing = Names()
    view = inspect(model, nothing, top=5)
    assert view.named == 0.0
    assert view.top[0].factors[0].startswith("?")
    assert len(view.top[0].factors[0]) == 17
    assert nothing.missing
    nothing.add(names.known().items())
    assert nothing.missing == frozenset()
    assert inspect(model, nothing, top=5).named == 1.0


def test_an_empty_model_has_a_view() -> None:
    """Before the first example there is nothing to show, and no error."""
    view = inspect(new_model(), Names(), top=5)
    assert (view.top, view.products, view.parents, view.degrees) == ((), (), (), ())
    assert view.epoch == -1
    assert math.isnan(view.losses["recent"].loss)
    told = json.loads(json.dumps(plain(view), allow_nan=False))
    assert told["losses"]["recent"]["loss"] is None
    assert told["lineage"] == {"start": 0, "model": "0123456789abcdef", "gaps": []}


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
