"""An epoch's end: the best become parents; where features are limited, those that earn least cease to be."""

import itertools

import numpy as np
import pytest
from learners.apple.test_learner import Row, batch_of, key, monomial_key, planted_rows
from learners.apple.test_parent_selection import MAX_DEGREE, chosen_by_sorting, random_table
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.learners.apple import growth
from stream_apple.learners.apple.appraisal import Appraiser
from stream_apple.learners.apple.growth import (
    EARLY,
    FEWEST_EXAMPLES,
    FEWEST_NONZEROS,
    FEWEST_PRODUCTS,
    PARENTS,
    REST,
    budget_of,
    grow,
)
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.parent_selection import RESTING, take_census
from stream_apple.learners.apple.state.model import EXAMPLES, NONZEROS
from stream_apple.learners.apple.state.table import PARENT
from stream_apple.learners.scores import Scores


@pytest.mark.parametrize("wanted", [0, 1, 50, 30_000, 1_000_000])
def test_the_most_salient_become_parents(wanted: int) -> None:
    """However many are asked for: none, few, many that tie, more than there are."""
    options = bare(mixture=False, max_degree=MAX_DEGREE)
    learner, table = Learner(options), random_table(wanted)
    model = learner._state._replace(table=table)
    model.scalars.counts[EXAMPLES], model.scalars.counts[NONZEROS] = 1, wanted
    before, expected = table.slots["parent"].copy(), chosen_by_sorting(table, wanted)
    grown = grow(model, learner._work, Appraiser(), options)
    assert (grown.added, grown.retired) == (len(expected), 0)
    assert np.flatnonzero(table.slots["parent"] != before).tolist() == sorted(expected)
    degrees = table.slots["degree"][table.slots["parent"] == PARENT]
    assert grown.census.parents.tolist() == [1, *np.bincount(degrees)[1:].tolist()]
    assert [counts.tolist() for counts in take_census(table)] == [counts.tolist() for counts in grown.census]


@pytest.mark.parametrize("wanted", [7_000, 30_000])
def test_half_of_the_parents_of_an_early_growth_are_base_features(wanted: int) -> None:
    """The best of them, and besides the best of any degree."""
    options = bare(max_degree=MAX_DEGREE)
    learner, table = Learner(options), random_table(wanted, mixed=True)
    model = learner._state._replace(table=table)
    model.scalars.counts[EXAMPLES] = FEWEST_EXAMPLES
    model.scalars.counts[NONZEROS] = FEWEST_EXAMPLES * wanted / (EARLY * PARENTS)
    before = table.slots["parent"].copy()
    base = chosen_by_sorting(table, wanted // 2, "evidence", max_degree=2)
    taken = set(base)
    others = [slot for slot in chosen_by_sorting(table, wanted, "evidence") if slot not in taken][: wanted - len(base)]
    assert grow(model, learner._work, Appraiser(), options, early=True).added == len(base) + len(others)
    assert np.flatnonzero(table.slots["parent"] != before).tolist() == sorted(base + others)


def test_few_features_have_parents_as_if_they_were_more() -> None:
    """In a mixture, examples of two count as of twelve."""
    options = bare(max_degree=MAX_DEGREE)
    learner, table = Learner(options), random_table(300, mixed=True)
    model = learner._state._replace(table=table)
    model.scalars.counts[EXAMPLES], model.scalars.counts[NONZEROS] = 100, 200
    assert grow(model, learner._work, Appraiser(), options).added == int(PARENTS * FEWEST_NONZEROS)


def test_the_fallback_is_one_of_the_smallest_degree() -> None:
    """The last of an epoch's parents is the first of those of degree 1, while there are any, whatever its weight."""
    rows = [Row({"a": 1.0, "b": 1.0, f"c{at % 4}": 1.0}, float(at % 2), 1.0) for at in range(64)]
    for fallback in (False, True):
        learner = Learner(bare(bits=12, mixture=False, fallback=fallback))
        learner.learn(batch_of(rows), 0, 64, Scores.empty(64))
        slots = learner.slots()[:-1]
        weight = np.abs(slots["weight"]) * slots["scale"]
        order = sorted(np.flatnonzero(slots["key"]), key=lambda at: (-weight[at], slots["key"][at]))
        learner.end_epoch()
        chosen = set(learner.slots()["key"][learner.slots()["parent"] == PARENT].tolist())
        expected = {int(slots["key"][at]) for at in order[: 3 - fallback]}
        if fallback:
            expected.add(min(int(k) for k in slots["key"] if k and int(k) not in expected))
        assert chosen == expected


NAMES, PRESENT, PAIRS = 120, 20, 12


class Changing:
    """A stream whose label is a sum of planted pairs, drawn anew every so many epochs."""

    def __init__(self, epochs: int, size: int, redrawn: int) -> None:
        rng = np.random.default_rng(4)
        self.size, keys = size, np.random.default_rng(5).integers(1, 1 << 64, NAMES, np.uint64)
        self.batches: list[Batch] = []
        for epoch in range(epochs):
            if epoch % redrawn == 0:
                pairs = rng.choice(20, (PAIRS, 2))
                signs = rng.choice([-1.0, 1.0], PAIRS)
            present = np.zeros((size, NAMES), bool)
            for row in present:  # the popular ones are in half of the examples
                row[rng.choice(20, 10, replace=False)] = True
                row[20 + rng.choice(NAMES - 20, PRESENT - 10, replace=False)] = True
            labels = (present[:, pairs[:, 0]] & present[:, pairs[:, 1]]) @ signs
            which = np.tile(np.arange(NAMES), (size, 1))[present]
            indptr = np.arange(size + 1, dtype=np.int64) * PRESENT
            self.batches.append(Batch(indptr, keys[which], np.ones(len(which), np.float32), labels, np.ones(size)))


class Seen:
    """What a learner was like after each epoch."""

    def __init__(self, learner: Learner, stream: Changing) -> None:
        self.products: list[float] = []
        self.losses: list[tuple[float, float]] = []
        self.added: list[int] = []
        self.retired: list[int] = []
        self.parents: list[set[int]] = []
        for batch in stream.batches:
            learner.learn(batch, 0, stream.size, Scores.empty(stream.size))
            grown = learner.end_epoch()
            slots = learner.slots()
            self.parents.append(set(slots["key"][slots["parent"] == PARENT].tolist()))
            report = learner.progress.report("last_epoch")
            self.losses.append((report.loss, report.linear_loss))
            self.added.append(grown.added)
            self.retired.append(grown.retired)
            assert len(self.parents[-1]) == grown.census.parents.sum() - 1
            none = np.zeros(0, np.int64)
            places = np.flatnonzero(slots["parent"] == PARENT)
            self.products.append(Appraiser().appraise(learner._state, learner._work, places, none).products)


@pytest.fixture(scope="module")
def stream() -> Changing:
    """200 epochs, with other pairs from every fiftieth on."""
    return Changing(200, 250, 50)


@pytest.fixture(scope="module")
def seen(stream: Changing) -> Seen:
    """A learner with a tight budget."""
    return Seen(Learner(bare(bits=14, max_products=300)), stream)


def test_the_budget_is_kept(seen: Seen) -> None:
    """After each epoch the products that the latest examples look up are within it: of them it is computed.

    Seldom they are a little more, where a new parent leads to a monomial that is one already and nobody reached.
    """
    assert max(seen.products) <= 300 * 1.02
    assert np.mean(np.array(seen.products) > 300) < 0.05
    assert np.mean(seen.products[20:]) > 300 * 0.8, "it is used, too"
    assert max(map(len, seen.parents)) <= 300


def test_it_goes_on_adapting(seen: Seen) -> None:
    """Parents come and go to the end; each time the pairs are drawn anew they are learned again."""
    assert sum(seen.retired[150:]) > 20
    assert sum(seen.added[150:]) > 20
    for last in (50, 100, 150, 200):
        loss, linear = np.mean(seen.losses[last - 10 : last], axis=0)
        assert loss < 0.6 * linear


def test_those_who_rest_come_back(seen: Seen) -> None:
    """Not before they have rested; but some are parents again later."""
    came_back = 0
    for epoch, (before, after) in enumerate(itertools.pairwise(seen.parents)):
        retired = before - after
        for later in range(epoch + 2, min(epoch + 2 + int(REST) - 1, len(seen.parents))):
            assert not retired & seen.parents[later]
        came_back += len(retired & set().union(*seen.parents[epoch + 1 :]))
    assert came_back > 10


def test_growth_is_deterministic(stream: Changing) -> None:
    """Equal options and examples make equal models, to the bit."""
    digests = set()
    for _ in range(2):
        learner, retired = Learner(bare(bits=12, max_products=200)), 0
        for batch in stream.batches[:12]:
            learner.learn(batch, 0, stream.size, Scores.empty(stream.size))
            retired += learner.end_epoch().retired
        assert retired > 0
        digests.add(learner.digest())
    assert len(digests) == 1


def test_nothing_grows_before_enough_examples_were_learned(stream: Changing) -> None:
    """FEWEST_EXAMPLES since the last growth, in however many epochs; examples that are only scored do not count."""
    learner, batch = Learner(bare(bits=14, max_products=300)), stream.batches[0]
    batch = batch._replace(labels=np.where(np.arange(stream.size) % 5 == 4, np.nan, batch.labels))
    for _ in range(10):
        assert learner.end_epoch()[:2] == (0, 0)
    learned, grown_at = 0, [0]
    for start in range(0, stream.size, 10):
        learner.learn(batch, start, start + 10, Scores.empty(stream.size))
        learned += 8
        before = learner.slots().tobytes()
        grown = learner.end_epoch()
        assert [counts.tolist() for counts in grown.census] == [counts.tolist() for counts in learner.census()]
        if learned - grown_at[-1] >= FEWEST_EXAMPLES:
            grown_at.append(learned)
            assert grown.added > 0
        else:
            assert grown[:2] == (0, 0)
            assert learner.slots().tobytes() == before, "those that rest wait, too"
    assert grown_at == [0, 56, 112, 168]


def test_fifty_examples_are_enough(stream: Changing) -> None:
    """And 49 are not."""
    learner, scores = Learner(bare(bits=14, max_products=300)), Scores.empty(stream.size)
    learner.learn(stream.batches[0], 0, FEWEST_EXAMPLES - 1, scores)
    assert learner.end_epoch().added == 0
    learner.learn(stream.batches[0], FEWEST_EXAMPLES - 1, FEWEST_EXAMPLES, scores)
    assert learner.end_epoch().added > 0
    assert learner.end_epoch()[:2] == (0, 0)


def test_a_tiny_table_under_heavy_eviction() -> None:
    """Hundreds of names in 256 slots over many epochs: parents keep their slots while they are parents."""
    rows = planted_rows(2000, seed=9, names=300)
    learner = Learner(bare(bits=8, max_products=2000))
    known = {key(f"n{i}") for i in range(300)}
    for start in range(0, 2000, 50):
        part = rows[start : start + 50]
        slots = learner.slots()
        parents = set(slots["key"][slots["parent"] == PARENT].tolist())
        learner.learn(batch_of(part), 0, 50, scores := Scores.empty(50))
        assert np.isfinite(scores.predictions).all()
        slots = learner.slots()
        assert parents == set(slots["key"][slots["parent"] == PARENT].tolist())
        learner.end_epoch()
    keys = slots["key"][slots["key"] != 0]
    assert len(np.unique(keys)) == len(keys) == learner.occupied > 230
    assert learner.evicted > 100
    assert any(int(k) in known for k in keys)


def test_a_parent_without_examples_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs and earns nothing; when room is needed it is the first to cease, and it rests."""
    for name, value in (("PARENTS", 1.0), ("FEWEST_NONZEROS", 0.0), ("UNPROVED", 1.0)):
        monkeypatch.setattr(growth, name, value)
    gone = [Row({"gone": 1.0, "a": 1.0}, float(at % 2), 1.0) for at in range(FEWEST_EXAMPLES)]
    rng = np.random.default_rng(2)
    present = [Row({f"n{i}": 1.0 for i in rng.choice(12, 8, replace=False)}, 1.0, 1.0) for _ in range(1200)]
    present = [row._replace(label=float("n1" in row.features) - float("n2" in row.features)) for row in present]
    learner = Learner(bare(bits=12, max_products=30))
    learner.learn(batch_of(gone), 0, len(gone), Scores.empty(len(gone)))
    learner.end_epoch()
    (place,) = np.flatnonzero(learner.slots()["key"] == monomial_key(("gone",)))
    assert learner.slots()["parent"][place] == PARENT
    for _ in range(6):  # new parents need time to earn
        learner.learn(batch_of(present), 0, 1200, Scores.empty(1200))
        if learner.end_epoch().retired:
            break
    assert learner.slots()["parent"][place] == REST * RESTING


def learned_alone(examples: int, step: int, **given: object) -> Learner:
    """A learner of so many planted examples, whose epochs never end."""
    chosen = {"mergeable": False, "drift": "ignore", **given}
    batch, learner = batch_of(planted_rows(3 * examples, 3)), Learner(bare(bits=12, **chosen))
    rows = int(batch.learned(0, 3 * examples)[examples - 1]) + 1
    for start in range(0, rows, step):
        learner.learn(batch, start, min(start + step, rows), Scores.empty(3 * examples))
    assert learner.examples == examples
    return learner


@pytest.mark.parametrize("step", [1000, 7])
def test_a_model_grows_before_its_first_epoch_ends(step: int) -> None:
    """After so many learned examples, and when they have doubled: wherever batches end, it is the same model."""
    assert learned_alone(100, step, mergeable=True).census().parents.sum() == 1
    sizes = [int(learned_alone(size, step).census().parents.sum()) for size in (59, 60, 119, 120)]
    assert sizes[0] == 1 < sizes[1] == sizes[2] < sizes[3]
    digests = {learned_alone(300, each).digest() for each in (step, 300)}
    assert len(digests) == 1
    assert learned_alone(300, step).digest() != learned_alone(300, step, mergeable=True).digest()


def test_rows_without_labels_do_not_make_a_model_grow_again() -> None:
    """After an early growth they may come for long: nothing changes, whatever the budget is."""
    learner = learned_alone(60, 1000, max_products=1)
    before, batch = learner.slots(), batch_of(planted_rows(50, 4))
    for _ in range(3):
        learner.learn(batch._replace(labels=np.full(50, np.nan)), 0, 50, Scores.empty(50))
    assert np.array_equal(learner.slots(), before)


def test_products_have_at_most_so_many_factors() -> None:
    """Those of the highest degree are no parents."""
    for most in (1, 2, 3):
        learner = learned_alone(2000, 100, max_degree=most)
        census = learner.census()
        assert len(census.monomials) - 1 == most
        assert len(census.parents) - 1 < max(most, 2)


def test_a_budget_for_each_base_feature() -> None:
    """At least FEWEST_PRODUCTS, and at most the product budget; less of it where linear has most of the mixture."""
    for most, nonzeros, linear, expected in (
        (1000, 10.0, 0.0, FEWEST_PRODUCTS),
        (1000, 50.0, 0.0, 800),
        (1000, 50.0, 0.5, 400),
        (1000, 50.0, 0.9, 320),
        (1000, 500.0, 0.0, 1000),
        (100, 10.0, 0.0, 100),
    ):
        assert budget_of(bare(max_products=most), nonzeros, linear) == expected
