"""The models of River's interface, on River's sets, in its pipelines and evaluations."""

import math
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import datasets, ensemble, evaluate, feature_extraction, metrics, preprocessing

from stream_apple.river import AppleClassifier, AppleRegressor

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def test_progressive_validation() -> None:
    """With and without delayed labels, and with a scaler before it: it learns something."""
    assert evaluate.progressive_val_score(datasets.Phishing(), AppleClassifier(), metrics.ROCAUC()).get() > 0.9
    scaled = preprocessing.StandardScaler() | AppleClassifier()
    assert evaluate.progressive_val_score(datasets.Phishing(), scaled, metrics.ROCAUC()).get() > 0.9
    delayed = AppleRegressor()
    found = evaluate.progressive_val_score(datasets.ChickWeights(), delayed, metrics.MAE(), moment="time", delay=3)
    assert found.get() < 60.0
    assert 0.0 < delayed.progressive_loss < delayed.linear_progressive_loss * 1.5


def test_more_than_two_classes() -> None:
    """By their number, or by name; what is none of them is refused, and what to do is said."""
    metric = evaluate.progressive_val_score(datasets.ImageSegments(), AppleClassifier(classes=7), metrics.Accuracy())
    assert metric.get() > 0.8
    named = AppleClassifier(classes=["a", "b", "c"])
    assert named.predict_proba_one({"x": 1.0}) == {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    counted = AppleClassifier(classes=np.int64(2))
    assert counted.predict_proba_one({"x": 1.0}) == {}
    assert counted.predict_one({"x": 1.0}) is None
    counted.learn_one({"x": 1.0}, "a")
    counted.learn_one({"x": 1.0}, "b")
    for model in (named, counted, AppleClassifier(), AppleClassifier(classes=["yes", "no"])):
        with pytest.raises(ValueError, match=r"AppleClassifier\(classes=\[...\]\) names the labels"):
            model.learn_one({"x": 1.0}, "z")


@pytest.mark.parametrize("chosen", [{}, {"discretise": "none"}, {"sort_names": False}], ids=str)
def test_rows_come_alone_or_in_frames(chosen: dict[str, Any]) -> None:
    """To the bit the same model, whatever the frame's order of columns where names are sorted."""
    draw = np.random.default_rng(2)
    frame = pd.DataFrame({"b": draw.normal(size=200), "a": draw.choice(["x", "y"], 200), "c": draw.normal(size=200)})
    labels = frame["b"] > 0
    one, many, pickled = (AppleClassifier(**chosen) for _ in range(3))
    for x, y in zip(frame.to_dict("records"), labels.tolist(), strict=True):
        one.learn_one(x, y)
        pickled.learn_one(x, y)
        if pickled._model.online.seen == 100:
            pickled = pickle.loads(pickle.dumps(pickled))
    columns = list(frame.columns) if chosen.get("sort_names") is False else ["c", "b", "a"]
    many.learn_many(frame[columns][:77], labels[:77])
    many.learn_many(frame[columns][77:], labels[77:])
    assert one._model.online.learner.digest() == many._model.online.learner.digest()
    assert one._model.online.learner.digest() == pickled._model.online.learner.digest()
    found = many.predict_proba_many(frame[columns][:9])
    assert found[True].tolist() == [one.predict_proba_one(x)[True] for x in frame[:9].to_dict("records")]


def test_words_and_their_neighbours_are_features() -> None:
    """River calls an n-gram by a tuple; a frame of the same counts gives the same model."""
    bag = feature_extraction.BagOfWords(ngram_range=(1, 2))
    rows = [dict(bag.transform_one(text)) for text in ("not good at all", "good", "not bad") * 30]
    one, many = AppleClassifier(bits=8), AppleClassifier(bits=8)
    for x, y in zip(rows, [False, True, True] * 30, strict=True):
        one.learn_one(x, y)
    names = list(dict.fromkeys(name for x in rows for name in x))
    cells = [[x.get(name, 0) for name in names] for x in rows]
    frame = pd.DataFrame(cells, columns=pd.Index(names, tupleize_cols=False))
    many.learn_many(frame, [False, True, True] * 30)
    assert one._model.online.learner.digest() == many._model.online.learner.digest()
    assert "not good" in {each.name for each in one.monomials()}


def test_columns_may_be_called_by_numbers() -> None:
    """As pandas calls those of an array; labels of pyarrow are labels."""
    rows, labels = np.random.default_rng(5).normal(size=(60, 12)), [True, False] * 30
    one, many = AppleClassifier(bits=8), AppleClassifier(bits=8)
    for row, label in zip(rows.tolist(), labels, strict=True):
        one.learn_one(dict(enumerate(row)), label)
    many.learn_many(pd.DataFrame(rows), pa.array(labels))
    assert one._model.online.learner.digest() == many._model.online.learner.digest()
    assert many.predict_many(pd.DataFrame(index=[4, 2])).tolist() == [many.predict_one({})] * 2


def test_a_field_may_become_several_features() -> None:
    """More than there was room for: a time is an hour, a weekday, and a month."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [{f"t{k}": begin + timedelta(hours=k * row) for k in range(60)} for row in range(80)]
    one, many = (AppleRegressor(bits=10, times=["t*"], time_zone="Europe/Rome") for _ in range(2))
    for row in rows:
        one.learn_one(row, row["t3"].hour)
    many.learn_many(pd.DataFrame(rows), [row["t3"].hour for row in rows])
    assert one._model.online.learner.digest() == many._model.online.learner.digest()
    assert "t3^hour=4" in {each.name for each in one.monomials(1000)}


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c"]])
def test_classes_may_be_an_array(names: list[str]) -> None:
    """Such as NumPy's `unique` of the labels."""
    model = AppleClassifier(classes=np.array(names))
    model.learn_one({"x": 1.0}, "b")
    assert list(model.predict_proba_one({"x": 1.0})) == names
    assert repr(model.clone()) == f"AppleClassifier(classes={np.array(names)!r})"


def test_rows_with_other_names_and_nested_maps() -> None:
    """A stream may change its names at any time, have more of them than there was room for, and hold maps."""
    model = AppleRegressor(bits=10)
    rows: list[dict[str, Any]] = [
        {"a": 1.0},
        {"a": 2, "b": "x", "n": None},
        {f"f{k}": float(k) for k in range(300)},
        {},
    ]
    rows += [{"user": {"age": 3.0, "tags": ["p", "q"]}}, {"a": 0.0, "b": True}, {"z": float("nan"), "y": -1e-50}]
    for number, row in enumerate(rows * 3):
        model.learn_one(row, float(number % 2))
        assert np.isfinite(model.predict_one(row))
    assert model._model.online.learner.examples == len(rows) * 3
    with pytest.raises(ValueError, match="expected a finite weight"):
        model.learn_one({"a": 1.0}, 1.0, w=-1.0)


@pytest.mark.parametrize("label", [math.nan, math.inf, 1e300, None, "a", [1]])
def test_what_is_no_amount_is_refused(label: Any) -> None:
    """Infinity made every later prediction NaN. So it is of frames, and of weights."""
    model, frame = AppleRegressor(bits=8), pd.DataFrame({"a": [1.0, 2.0]})
    with pytest.raises(ValueError, match="y: expected a"):
        model.learn_one({"a": 1.0}, label)
    with pytest.raises(ValueError, match=r"y: expected .* in row 1"):
        model.learn_many(frame, [1.0, label])
    with pytest.raises(ValueError, match="w: expected a"):
        model.learn_one({"a": 1.0}, 1.0, w=label)
    with pytest.raises(ValueError, match=r"w: expected .* in row 1"):
        model.learn_many(frame, [1.0, 2.0], w=[1.0, label])
    assert model.predict_one({"a": 1.0}) == 0.0


def test_more_features_than_an_example_may_have_are_refused() -> None:
    """Alone, in a frame, and by the codec."""
    model = AppleRegressor(bits=8, max_features_per_example=4)
    wide = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}
    asked: list[Any] = [
        lambda: model.learn_one(wide, 1.0),
        lambda: model.predict_one(wide),
        lambda: model.learn_one({"space": wide}, 1.0),
        lambda: model.learn_many(pd.DataFrame([wide]), [1.0]),
    ]
    for ask in asked:
        with pytest.raises(ValueError, match="row 0: expected at most 3 features"):
            ask()
    for number in range(60):  # from some row on they are learned one by one
        model.learn_one({"a": 1.0, "b": 1.0, "c": 1.0}, float(number))
    for ask in asked:
        with pytest.raises(ValueError, match="row 0: expected at most 3 features"):
            ask()
    model.learn_one({"a": 1.0, "b": 1.0, "c": 1.0, "d": None, "e": 0}, 1.0)
    assert model._model.online.learner.examples == 61


@pytest.mark.parametrize("seen", [3, 60])
def test_what_is_refused_ends_no_epoch(seen: int) -> None:
    """Nor moves the clock: a worker makes a dead letter of it."""
    model = AppleRegressor(bits=8, epoch_length="1h")
    for number in range(seen):
        model.learn_one({"a": float(number % 7)}, float(number), time=1e6 + number)
    before = model._model.online.__getstate__()["time"][1].tolist(), model._model.online.learner.digest()
    for wrong in ({"a": math.inf}, {"a": datetime(2026, 1, 1, tzinfo=UTC)}):
        with pytest.raises(ValueError, match=r"expected a number, .* as 'a'|expected a number below .* as 'a'"):
            model.learn_one(wrong, 1.0, time=1e6 + 86_400)
    assert (model._model.online.__getstate__()["time"][1].tolist(), model._model.online.learner.digest()) == before


@pytest.mark.parametrize("x", [None, [1.0], "a", pd.Series({"a": 1.0})])
def test_a_row_is_a_map(x: Any) -> None:
    """Also for a model that has rows behind it."""
    model = AppleClassifier(bits=8)
    for _ in range(2):
        for ask in (lambda: model.learn_one(x, True), lambda: model.predict_one(x), lambda: model.explain_one(x)):  # noqa: FBT003
            with pytest.raises(ValueError, match="x: expected a map of names to values"):
                ask()
        model.learn_one({"a": 1.0}, True)  # noqa: FBT003


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (1, "an integer from 2 to 1000, or a list of labels, found 1"),
        (["a", "a"], "two labels or more, each once"),
        (["a", "b", "c", "a"], "two labels or more, each once"),
        ({"a", "b"}, "a list of labels, in their order, found the set"),
        ("ab", "a list of labels, found 'ab'"),
        (2.5, "a list of labels, found 2.5"),
        ([[1], [2]], "texts, numbers or booleans"),
    ],
)
def test_classes_are_different_labels_in_an_order(classes: Any, message: str) -> None:
    """It is asked before anything is learned."""
    for ask in (
        lambda: AppleClassifier(classes=classes).learn_one({"a": 1.0}, "a"),
        lambda: AppleClassifier(classes=classes).predict_proba_one({"a": 1.0}),
    ):
        with pytest.raises(ValueError, match=f"classes: expected {message}"):
            ask()


def test_a_refused_example_leaves_no_class() -> None:
    """Of a number of classes, those come first whose examples were learned."""
    model = AppleClassifier(classes=2)
    with pytest.raises(ValueError, match="w: expected"):
        model.learn_one({"a": 1.0}, "refused", w=-1.0)
    with pytest.raises(ValueError, match="names the labels"):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0, 3.0]}), ["one", "two", "three"])
    assert model.predict_proba_one({"a": 1.0}) == {}
    model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), ["yes", "no"])
    assert list(model.predict_proba_one({"a": 1.0})) == ["yes", "no"]


def test_an_example_that_one_thread_is_refused_leaves_the_class_of_another() -> None:
    """Both bring a class of their own, the second while the first one's features are read."""
    model = AppleClassifier(classes=3)
    other = Thread(target=model.learn_one, args=({"a": 1.0}, "learned"))

    class Interrupted(dict[str, float]):
        def __iter__(self) -> Iterator[str]:
            other.start()
            other.join(0.2)  # it waits for this thread
            raise ValueError("no features")

    with pytest.raises(ValueError, match="no features"):
        model.learn_one(Interrupted(a=1.0), "refused")
    other.join()
    assert list(model.predict_proba_one({"a": 1.0})) == ["learned"]


def test_a_missing_label_is_no_class() -> None:
    """Nor is a list."""
    no_labels: list[Any] = [None, math.nan, [1]]
    for label in no_labels:
        with pytest.raises(ValueError, match="y: expected a label, found"):
            AppleClassifier(classes=3).learn_one({"a": 1.0}, label)
        with pytest.raises(ValueError, match=r"y: expected (one of|a label)"):
            AppleClassifier().learn_one({"a": 1.0}, label)


def test_it_is_shown_by_what_was_chosen() -> None:
    """And not by thirty defaults; an ensemble clones it."""
    assert repr(AppleClassifier(bits=10)) == "AppleClassifier(bits=10)"
    several = ensemble.BaggingClassifier(AppleClassifier(bits=10), n_models=2, seed=1)
    assert evaluate.progressive_val_score(datasets.Phishing().take(300), several, metrics.ROCAUC()).get() > 0.8


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((2, 2)), "X: expected a frame, found a ndarray"),
        ([{"a": 1.0}, {"a": 2.0}], "X: expected a frame, found a list"),
        (pl.DataFrame({"a": [1.0, 2.0]}).lazy(), "X: expected a frame, found a LazyFrame"),
        (
            pd.DataFrame([[1.0], [2.0]], columns=[None]),
            "expected a text, a number, .* as name of a feature, found None",
        ),
    ],
    ids=["an array", "maps", "a frame that is not read yet", "no name"],
)
def test_what_is_no_frame_is_refused(rows: Any, message: str) -> None:
    """In words, and not in those of a library in between."""
    for model in (AppleClassifier(), AppleRegressor()):
        with pytest.raises(ValueError, match=message):
            model.learn_many(rows, [False, True])
        with pytest.raises(ValueError, match=message):
            model.predict_many(rows)


def test_labels_and_weights_behind_a_mask_are_refused() -> None:
    """As missing ones are; NumPy's functions overlook masks."""
    frame, masked = pd.DataFrame({"a": [1.0, 2.0]}), np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(ValueError, match=r"y: expected finite numbers .*, found nan in row 1"):
        AppleRegressor().learn_many(frame, masked)
    with pytest.raises(ValueError, match="w: expected finite weights from 0 to 1e12, found nan in row 1"):
        AppleRegressor().learn_many(frame, [1.0, 2.0], masked)


@pytest.mark.parametrize("labels", [["no", "yes"], ["no", "maybe", "yes"]], ids=len)
def test_classes_may_be_an_array_of_pyarrow(labels: list[str]) -> None:
    """As a column of a table is: its cells are no labels themselves."""
    model = AppleClassifier(classes=pa.array(labels))
    model.learn_one({"a": 1.0}, "yes")
    assert list(model.predict_proba_one({"a": 1.0})) == labels


def test_sort_names_is_true_or_false() -> None:
    """A mistyped value would sort."""
    with pytest.raises(ValueError, match="sort_names: expected True or False, found 'no'"):
        AppleClassifier(sort_names="no").learn_one({"a": 1.0}, y=True)
