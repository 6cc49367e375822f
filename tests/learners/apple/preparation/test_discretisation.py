"""Values become intervals: which, which not, and when; however the stream is cut, and wherever it is taken up again."""

from typing import Any

import numpy as np
import pytest
from learners.apple.test_learner import Row, batch_of, key
from support.bare_options import bare
from support.restoring import restored

from stream_apple.core.batch import BIN, Batch, joined, space_key
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import RESERVOIR_ENTRIES, Discretise
from stream_apple.learners.apple.preparation.intervals import CENTRED, RAW, interval_keys
from stream_apple.learners.apple.preparation.preparation import Preparation
from stream_apple.learners.apple.preparation.reservoir import FEWEST
from stream_apple.learners.scores import Scores

NAMES = ["dense", "zeros", "rare", "flag", "unit", "seldom"]
BY_KEY = {key(name): name for name in NAMES}


def rows_of(size: int, seed: int, *, regression: bool = False) -> list[Row]:
    """A feature that is always there, one that is 0 in a third, one in every twentieth; some that are no numbers."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(size):
        features = {"dense": float(np.float32(rng.normal())) or 1.0, "unit": 7.5}
        if rng.random() < 2 / 3:
            features["zeros"] = float(rng.integers(1, 40))
        if number % 20 == 0:
            features["rare"] = float(rng.integers(1, 5))
        if rng.random() < 0.5:
            features["flag"] = 1.0
        if number % 100 == 0:
            features["seldom"] = float(number + 1)
        label: float | None = float(np.sign(np.sin(3 * features["dense"])) or 1.0)
        if regression:
            label = 3.0 * features["dense"]
        weight = 1.0
        if rng.random() < 0.1:
            label = None
        elif rng.random() < 0.1:
            weight = 0.0
        rows.append(Row(features, label, weight))
    return rows


def as_learned(preparation: Preparation, batch: Batch, start: int, stop: int) -> Batch:
    """Return rows [start, stop) as they are learned, all parts in one."""
    return joined([*preparation.prepare_to_learn(batch, start, stop)])


def prepared(discretise: Discretise, rows: list[Row], **further: Any) -> tuple[Preparation, Batch]:
    """What becomes of the rows when they are learned at once."""
    preparation = Preparation(bare(discretise=discretise, **further))
    return preparation, as_learned(preparation, batch_of(rows), 0, len(rows))


def told(preparation: Preparation, batch: Batch, row: int) -> dict[str, tuple[float, int]]:
    """A row's features by name: value and role."""
    derived, found = preparation.derived_names(), {}
    for at in range(batch.indptr[row], batch.indptr[row + 1]):
        feature, ending = derived.get(int(batch.keys[at]), (int(batch.keys[at]), ""))
        role = int(batch.roles[at]) if len(batch.roles) else 0
        found[BY_KEY[feature] + ending] = (float(batch.values[at]), role)
    assert len(found) == batch.indptr[row + 1] - batch.indptr[row]
    return found


def bin_of(preparation: Preparation, name: str, value: float) -> int:
    """The key of the interval that a value should have, the slow way."""
    number = preparation.intervals.features.tolist().index(key(name))
    start = int(preparation.intervals.ends[number - 1]) if number else 0
    cuts = preparation.intervals.cuts[start : preparation.intervals.ends[number]]
    return int(interval_keys(key(name), cuts)[sum(value >= cut for cut in cuts.tolist())])


def test_which_features_are_cut() -> None:
    """Numbers that were seen often enough; not 0/1 features, nor those of one value, nor the seldom ones."""
    rows = rows_of(700, 1)
    preparation, _ = prepared("quantile", rows)
    cut = {BY_KEY[each]: bool(dense) for each, dense in zip(
        preparation.intervals.features.tolist(), preparation.intervals.dense.tolist(), strict=True
    )}  # fmt: skip
    assert cut == {"dense": True, "zeros": True, "rare": False}
    assert sum("seldom" in row.features for row in rows[:600]) < FEWEST


def test_rows_before_and_after_the_cuts() -> None:
    """As they came, until 500 are learned; then intervals, of the zeros that were left out too; others untouched."""
    rows = rows_of(900, 2)
    preparation, batch = prepared("quantile", rows)
    learned = [at for at, row in enumerate(rows) if row.label is not None and row.weight]
    last = learned[499]
    for at, row in enumerate(rows):
        found = told(preparation, batch, at)
        if at <= last:
            assert found == {name: (float(np.float32(value)), 0) for name, value in row.features.items()}
            continue
        keys = set(batch.keys[batch.indptr[at] : batch.indptr[at + 1]].tolist())
        expected = {key(name) for name in ("flag", "unit", "seldom") if name in row.features}
        expected |= {bin_of(preparation, name, row.features.get(name, 0.0)) for name in ("dense", "zeros")}
        if "rare" in row.features:
            expected.add(bin_of(preparation, "rare", row.features["rare"]))
        assert keys == expected
        assert {role for name, (_, role) in found.items() if "\u2208" in name} == {int(BIN)}
        assert {role for name, (_, role) in found.items() if "\u2208" not in name} == {0}
    assert last < 700


def test_edges_of_intervals() -> None:
    """A cut belongs to the interval above it, and the outer intervals have no end."""
    preparation, _ = prepared("quantile", rows_of(700, 3))
    at = preparation.intervals.features.tolist().index(key("dense"))
    start = int(preparation.intervals.ends[at - 1]) if at else 0
    cuts = preparation.intervals.cuts[start : preparation.intervals.ends[at]]
    keys = interval_keys(key("dense"), cuts).tolist()
    largest = np.float32(np.nextafter(np.float32(2.0**60), np.float32(0)))
    values = [-largest, np.nextafter(cuts[0], np.float32(-9)), cuts[0], cuts[1], np.nextafter(cuts[1], cuts[0])]
    values += [cuts[-1], largest]
    for value, place in zip(values, [0, 0, 1, 2, 1, len(cuts), len(cuts)], strict=True):
        batch = preparation.prepare(batch_of([Row({"dense": float(value), "zeros": 1.0}, 1.0, 1.0)]))
        assert batch.keys[0] == keys[place], value
    assert len(set(keys)) == len(cuts) + 1


def test_keys_are_of_intervals_alone() -> None:
    """The same interval among other cuts has the same key; another feature's has another."""
    cuts = np.array([1.0, 2.0, 3.0], np.float32)
    few, many = interval_keys(5, cuts[1:]), interval_keys(5, cuts)
    assert few[1:].tolist() == many[2:].tolist()
    assert few[0] not in many
    assert not set(interval_keys(6, cuts).tolist()) & set(many.tolist())


def test_auto_keeps_values() -> None:
    """Centred within two widths with two labels; as they are with labels that are numbers, and of the rare feature."""
    rows = rows_of(900, 4)
    preparation, batch = prepared("auto", rows)
    kept = dict(
        zip((BY_KEY[k] for k in preparation.intervals.features.tolist()), preparation.intervals.kept, strict=True)
    )
    assert kept == {"dense": CENTRED, "zeros": CENTRED, "rare": RAW}
    for at in range(700, 900):
        found = told(preparation, batch, at)
        centred = [
            value for name, (value, _) in found.items() if name.startswith(("dense\u2212", "dense+", "zeros\u2212"))
        ]
        assert 1 <= len(centred) <= 2
        assert all(0 < abs(value) <= 2 for value in centred)
        assert ("rare" in found) == ("rare" in rows[at].features)
    preparation, batch = prepared("auto", rows_of(900, 4, regression=True))
    assert set(preparation.intervals.kept.tolist()) == {int(RAW)}
    assert told(preparation, batch, 899)["dense"][0] == np.float32(rows[899].features["dense"])


def test_mdl_cuts_what_tells_labels_apart() -> None:
    """The sine's changes of sign are found; what tells nothing is learned as it is."""
    preparation, batch = prepared("mdl", rows_of(900, 5))
    assert [BY_KEY[each] for each in preparation.intervals.features.tolist()] == ["dense"]
    zero = preparation.intervals.cuts[np.abs(preparation.intervals.cuts).argmin()]
    assert abs(zero) < 0.05
    assert "zeros" in told(preparation, batch, 800) or "zeros" not in rows_of(900, 5)[800].features


def test_named_namespaces_alone() -> None:
    """Of the others, or where a reader gives none, values stay as they are."""
    rows, spaces = rows_of(700, 6), {"dense": 1, "zeros": space_key("a")}
    batch = batch_of(rows)
    batch = batch._replace(spaces=np.array([spaces.get(name, 0) for row in rows for name in row.features], np.uint64))
    preparation = Preparation(bare(discretise="quantile", discretise_namespaces="a, b"))
    made = as_learned(preparation, batch, 0, 700)
    assert preparation.intervals.features.tolist() == [key("zeros")]
    assert len(made.spaces) == len(made.keys)
    last = slice(int(made.indptr[-2]), int(made.indptr[-1]))
    assert sorted(made.spaces[last].tolist()) == sorted(
        [*spaces.values(), *(0 for name in rows[-1].features if name not in spaces)]
    )
    assert bare(discretise="quantile", discretise_namespaces="a").wanted_columns() == {"spaces"}


def test_words_are_not_cut() -> None:
    """A text's words have many weights too; but most of them are absent from most texts. Beside a table they are."""
    rng, rows = np.random.default_rng(12), []
    for number in range(700):
        words = {f"w{each}": float(np.float32(rng.uniform(0.1, 1))) for each in rng.integers(0, 40, 8)}
        words["the"] = float(np.float32(rng.uniform(0.1, 1)))
        rows.append(Row(words, float(number % 2), 1.0))
    preparation, batch = prepared("auto", rows)
    assert preparation.arrays["fitted"][0]
    assert not len(preparation.intervals.features)
    assert batch.values.tolist() == [value for row in rows for value in row.features.values()]
    columns = [{f"c{each}": float(rng.integers(1, 30)) for each in range(12)} for _ in rows]
    both = [row._replace(features={**row.features, **more}) for row, more in zip(rows, columns, strict=True)]
    preparation, _ = prepared("quantile", both)
    assert len(preparation.intervals.features) == 53


def test_a_reservoir_is_bounded() -> None:
    """Cuts are made before the example that no longer fits; from that one on they hold."""
    size = 7_000
    keys = np.arange(1, size + 1, dtype=np.uint64)
    most = RESERVOIR_ENTRIES // size
    count = most + 3
    batch = Batch(
        np.arange(count + 1) * size,
        np.tile(keys, count),
        np.repeat(np.arange(1, count + 1), size).astype(np.float32),
        np.where(np.arange(count) % 2, 1.0, -1.0),
        np.ones(count),
    )
    digests = []
    for step in (1, 2, count):
        preparation = Preparation(bare(discretise="quantile", bins=2))
        for start in range(0, count, step):
            as_learned(preparation, batch, start, min(start + step, count))
            assert len(preparation.arrays["reservoir_keys"]) <= RESERVOIR_ENTRIES
        assert preparation.arrays["fitted"][0]
        digests.append({name: array.tobytes() for name, array in preparation.arrays.items()})
    assert digests[0] == digests[1] == digests[2]


KINDS: list[dict[str, Any]] = [
    {"discretise": "quantile"},
    {"discretise": "mdl", "loss": "logistic"},
    {"discretise": "auto"},
    {"discretise": "spline"},
    {"discretise": "quantile", "method": "quadratic", "bits": 12},
    {"discretise": "auto", "combine": "off"},
    {"discretise": "auto", "method": "linear", "personalise": "user", "ngrams": {"*": 2}, "refit_epochs": 1},
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_however_the_stream_is_cut_and_taken_up(kind: dict[str, Any]) -> None:
    """Calls of one row, of ten and of all give the same bits; so does a model restored before and after the cuts."""
    rows = [row._replace(features={}) if number % 20 == 10 else row for number, row in enumerate(rows_of(500, 7))]
    batch, options = batch_of(rows), bare(**{"bits": 12, **kind}, reservoir=150)
    batch = batch._replace(spaces=np.zeros_like(batch.keys), attributes=batch.keys)
    found = []
    for step in (1, 10, 250):
        learner, scores = Learner(options), Scores.empty(500)
        for start in range(0, 500, step):
            learner.learn(batch, start, start + step, scores)
            if (start + step) % 250 == 0:
                learner.end_epoch()
            if step == 10 and start + step in {90, 250, 400}:
                learner = resumed(learner)
        found.append((learner.digest(), scores.predictions.tobytes()))
        assert len(learner.preparation.intervals.features)
    assert found[0] == found[1] == found[2]


def resumed(learner: Learner) -> Learner:
    """Another one with the same state."""
    other = restored(learner)
    other.restore_observed(learner.observed)
    assert other.digest() == learner.digest()
    return other


@pytest.mark.parametrize("method", ["apple", "quadratic"])
def test_no_interval_is_squared(method: Any) -> None:
    """In a mixture that grows, and looks at recent examples, too: of values there are squares, of intervals none."""
    learner = Learner(bare(method=method, discretise="auto", bins=4, reservoir=100, bits=14))
    batch = batch_of(rows_of(1600, 13))
    for start in range(0, 1600, 200):
        learner.learn(batch, start, start + 200, Scores.empty(1600))
        learner.end_epoch()
    slots = learner.slots()[:-1]
    made = learner.preparation.derived_names()
    intervals = np.array([each for each, name in made.items() if "\u2208" in name.ending], np.uint64)
    values = np.array([each for each, name in made.items() if "\u2208" not in name.ending], np.uint64)
    assert np.isin(intervals, slots["key"]).all()
    assert np.isin(values * np.uint64(2), slots["key"]).any()
    pairs = (intervals[:, None] + intervals).ravel()
    assert np.isin(pairs, slots["key"]).any()
    assert not np.isin(intervals * np.uint64(2), slots["key"]).any()
    triples = (intervals * np.uint64(2))[:, None] + np.concatenate([intervals, values])
    assert not np.isin(triples, slots["key"]).any()


def test_scoring_changes_nothing() -> None:
    """Neither before the cuts nor after; and unlabelled rows fill no reservoir."""
    batch = batch_of(rows_of(600, 8))
    learner = Learner(bare(discretise="auto", reservoir=100, bits=12))
    nothing = learner.digest()
    learner.score(batch)
    assert learner.digest() == nothing
    learner.learn(batch._replace(labels=np.full(600, np.nan)), 0, 600, Scores.empty(600))
    assert not any(len(array) for name, array in learner.preparation.arrays.items() if name != "fitted")
    learner.learn(batch, 0, 600, Scores.empty(600))
    before = learner.digest()
    assert np.isfinite(learner.score(batch).predictions).all()
    assert learner.digest() == before


def test_damaged_states_are_refused() -> None:
    """Missing arrays, other types, and lengths that contradict each other."""
    learner = Learner(bare(discretise="quantile", reservoir=100, bits=12))
    learner.learn(batch_of(rows_of(300, 9)), 0, 300, Scores.empty(300))
    good = learner.sums
    for name in ("prepared_intervals_cuts", "prepared_intervals_features", "prepared_reservoir_keys"):
        without = {each: array for each, array in good.items() if each != name}
        longer = {**good, name: np.append(good[name], good[name].dtype.type(1))}
        other = {**good, name: good[name].view(np.uint8)}
        for bad in (without, longer, other):
            with pytest.raises(ValueError, match="expected"):
                Learner(learner.options).restore(bad)


def test_nothing_numeric_is_as_if_it_were_off() -> None:
    """A stream of 0/1 features gives the same scores with and without, in every method."""
    rows = [Row(dict.fromkeys(row.features, 1.0), row.label, row.weight) for row in rows_of(400, 10)]
    for method in ("apple", "quadratic", "linear"):
        scores = []
        for discretise in ("none", "auto"):
            budget: dict[str, Any] = {"product_budget": 500} if method == "apple" else {}
            further: dict[str, Any] = {"reservoir": 100} if discretise == "auto" else {}
            learner = Learner(bare(method=method, discretise=discretise, bits=12, **budget, **further))
            found = Scores.empty(400)
            for start in range(0, 400, 100):
                learner.learn(batch_of(rows), start, start + 100, found)
                learner.end_epoch()
            scores.append(found.predictions.tobytes())
        assert scores[0] == scores[1], method


def test_bins_make_a_band_learnable() -> None:
    """A label that changes along a number and back: values can't tell, intervals can."""
    rng = np.random.default_rng(11)
    rows = []
    for _ in range(4000):
        value = float(np.float32(rng.normal()))
        rows.append(Row({"dense": value}, 1.0 if abs(value) < 0.7 else -1.0, 1.0))
    losses = {}
    for discretise in ("none", "quantile", "mdl", "auto", "spline"):
        learner, scores = Learner(bare(method="linear", discretise=discretise)), Scores.empty(4000)
        learner.learn(batch_of(rows), 0, 4000, scores)
        losses[discretise] = float(scores.losses[2000:].mean())
    assert losses["none"] > 0.9
    assert losses["quantile"] < 0.25
    assert losses["mdl"] < 0.2
    assert losses["auto"] < 0.35
    assert losses["spline"] < 0.35
