"""The estimators of scikit-learn's interface: what `fit` makes of a set, and which inputs there are."""

import math
import pickle
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stream_apple import AppleClassifier, AppleRegressor
from stream_apple.learners.apple.options.declared_options import DECLARED
from stream_apple.library.example_sets import MOST_COPIES

CELLS, LABELS = load_breast_cancer(return_X_y=True)
FRAME = load_breast_cancer(as_frame=True).data
SMALL = np.random.default_rng(0).normal(size=(40, 3)).round(2)
SIGNS = (SMALL[:, 0] > 0).astype(int)


def test_the_parameters_are_the_options() -> None:
    """By the same names and defaults, but for what an estimator derives; a wrong one is refused."""
    parameters = AppleClassifier().get_params()
    for name, each in DECLARED.items():
        if name not in {"loss", "classes"} and each.option.section != "learner.paper":
            assert parameters[name] == each.default or (each.default == () and parameters[name] is None)
    with pytest.raises(TypeError, match="found 'bitz'; the nearest is 'bits'"):
        AppleClassifier(bitz=3)
    with pytest.raises(ValueError, match=r"bits: expected an integer from 8 to 30, found 3"):
        AppleClassifier(bits=3).fit(SMALL, SIGNS)
    with pytest.raises(ValueError, match=r"bits: expected an integer from 8 to 30, found 'many'"):
        AppleRegressor(bits="many").fit(SMALL, SIGNS)
    with pytest.raises(ValueError, match="shuffle: expected True or False, found 'no'"):
        AppleRegressor(shuffle="no").fit(SMALL, SIGNS)
    for name, wrong in (("passes", 0), ("passes", 1.5), ("epoch_examples", -1), ("epoch_examples", True)):
        with pytest.raises(ValueError, match=f"{name}: expected None or a whole number"):
            AppleClassifier(**{name: wrong}).fit(SMALL, SIGNS)


def test_settings_of_the_papers_algorithm_are_one_parameter() -> None:
    """They are named as in the configuration; a wrong one is refused, and so are all of them in a mixture."""
    model = AppleRegressor(bits=8, mixture=False, paper={"selection": "ssm", "alpha": 0.5}).fit(SMALL, SMALL[:, 1])
    assert model._online.options.identity().items() >= {"selection": "ssm", "alpha": 0.5}.items()
    for paper, message in (
        (
            {"selektion": "ssm"},
            "paper: expected settings of learner.paper, found 'selektion'; the nearest is 'sele",
        ),
        ("ssm", "paper: expected None or a map with alpha, selection, .*, found 'ssm'"),
        ({"alpha": 3}, "alpha: expected a number above 0 and at most 2, found 3"),
    ):
        with pytest.raises(ValueError, match=message):
            AppleRegressor(mixture=False, paper=paper).fit(SMALL, SMALL[:, 1])
    with pytest.raises(ValueError, match="selection: expected weight with mixture = true, found 'ssm'"):
        AppleRegressor(paper={"selection": "ssm"}).fit(SMALL, SMALL[:, 1])


def test_settings_of_the_input_are_parameters() -> None:
    """They are named as in the configuration, and are refused as there; columns may be called by numbers."""
    rows = [{"code": 7.0, "visits": "12", "at": "2024-05-01T10:00:00Z", "row": number} for number in range(4)]
    chosen: dict[str, Any] = {"categories": ["code"], "numbers": ["visits"], "times": "at", "ignore": ("row",)}
    model = AppleClassifier(bits=8, method="linear", time_zone="Europe/Rome", **chosen)
    assert clone(model).get_params() == model.get_params()
    names = {each.name for each in clone(model).fit(rows, [0, 1] * 2).monomials()}
    assert names == {"code=7", "visits", "at^hour=12", "at^weekday=wednesday", "at^month=5"}
    again = pickle.loads(pickle.dumps(clone(model).fit(pd.DataFrame(rows), [0, 1] * 2)))
    assert again.predict_proba(rows).tolist() == clone(model).fit(rows, [0, 1] * 2).predict_proba(rows).tolist()
    messages = [{"id": number, "payload": {"a": float(number)}} for number in range(4)]
    payload = AppleClassifier(bits=8, method="linear", features="payload").fit(messages, [0, 1] * 2)
    assert {each.name for each in payload.monomials()} == {"a"}
    by_place = AppleClassifier(bits=8, method="linear", categories=np.array([1])).fit(SMALL.round(), SIGNS)
    assert {"0", "2", "1=1"} <= {each.name for each in by_place.monomials()}
    for name, wrong in (("time_zone", "Mars"), ("unreadable", "skip"), ("separator", "="), ("features", 3)):
        with pytest.raises(ValueError, match=f"^{name}: expected .*, found {wrong!r}"):
            AppleClassifier(bits=8, **{name: wrong}).fit(rows, [0, 1] * 2)


@pytest.mark.parametrize("shuffle", [True, False])
def test_the_scale_of_weights_does_not_matter_to_fit(shuffle: bool) -> None:  # noqa: FBT001  of a test
    """Weights of 1/n, as boosting gives them, are weights of 1; a mean from 1 to 8 may count rows."""
    weights = np.random.default_rng(3).random(40) + 0.5
    plain = AppleRegressor(bits=8, shuffle=shuffle).fit(SMALL, SMALL[:, 1])
    by_mean = AppleRegressor(bits=8, shuffle=shuffle).fit(SMALL, SMALL[:, 1], weights / weights.mean())
    for scale in (1 / 40, 1e-9, 1e9):
        even = AppleRegressor(bits=8, shuffle=shuffle).fit(SMALL, SMALL[:, 1], np.full(40, scale))
        assert even.predict(SMALL).tolist() == pytest.approx(plain.predict(SMALL).tolist(), rel=1e-6)
        other = AppleRegressor(bits=8, shuffle=shuffle).fit(SMALL, SMALL[:, 1], weights * scale)
        assert other.predict(SMALL).tolist() == pytest.approx(by_mean.predict(SMALL).tolist(), rel=1e-6)
    twice = AppleRegressor(bits=8, shuffle=shuffle).fit(SMALL, SMALL[:, 1], np.full(40, 2.0))
    assert twice.predict(SMALL).tolist() != plain.predict(SMALL).tolist()
    stream = AppleRegressor(bits=8).partial_fit(SMALL, SMALL[:, 1], np.full(40, 1 / 40))
    assert (
        stream.predict(SMALL).tolist() != AppleRegressor(bits=8).partial_fit(SMALL, SMALL[:, 1]).predict(SMALL).tolist()
    )


def test_it_may_be_boosted() -> None:
    """AdaBoost gives weights whose sum is 1."""
    (first,) = AdaBoostClassifier(AppleClassifier(bits=10), n_estimators=1).fit(CELLS, LABELS).estimators_
    plain = clone(first).fit(CELLS, LABELS)
    assert first.predict_proba(CELLS) == pytest.approx(plain.predict_proba(CELLS), abs=1e-6)


@settings(max_examples=10)
@given(order=st.permutations(range(40)), weights=st.lists(st.integers(0, MOST_COPIES), min_size=40, max_size=40))
def test_fit_learns_a_set(order: list[int], weights: list[int]) -> None:
    """In whatever order the rows are, and however often they are repeated instead of weighted: to the bit."""
    if sum(weights) == 0:
        weights[0] = 1
    first = AppleRegressor(bits=8).fit(SMALL, SMALL[:, 1], sample_weight=weights)
    shuffled, of_them = SMALL[order], np.array(weights)[order]
    second = AppleRegressor(bits=8).fit(np.repeat(shuffled, of_them, axis=0), np.repeat(shuffled[:, 1], of_them))
    assert first._online.learner.digest() == second._online.learner.digest()


def test_equal_rows_are_one_whichever_comes_first() -> None:
    """Maps have their names in any order, and weights are rounded when they are added."""
    rows = [dict(zip("abc", row, strict=True)) for row in SMALL.tolist()]
    turned = [dict(reversed(row.items())) for row in rows]
    digests = set()
    for parts in permutations([(rows, 0.1), (turned, 0.2), (rows, 0.3)]):
        model, weights = AppleRegressor(bits=8), np.repeat([weight for _, weight in parts], 40)
        model.fit([row for part, _ in parts for row in part], np.tile(SMALL[:, 1], 3), sample_weight=weights)
        digests.add(model._online.learner.digest())
    assert len(digests) == 1


def test_texts_of_the_same_words_are_others_in_another_order() -> None:
    """Where words that stand side by side are features, each text is learned, whichever comes first."""
    words = [["not", "bad", "but", "good"], ["not", "good", "but", "bad"]] * 5
    texts = [{"t": text} for text in words]
    for rows in (texts, texts[::-1]):
        model = AppleRegressor(bits=10, method="linear", ngrams={"*": 2}).fit(rows, [1.0] * 10)
        assert {"t=not^t=bad", "t=not^t=good"} <= {each.name for each in model.monomials()}
        assert not any(each.name.startswith("?") for each in pickle.loads(pickle.dumps(model)).explain(texts[0]))


def test_neighbouring_columns_have_names() -> None:
    """Of frames, arrays, sparse matrices and maps alike; a cell that is 0 is no neighbour."""
    cells = np.tile([[1.0, 0.0, 2.0], [1.0, 3.0, 2.0]], (20, 1))
    frame = pd.DataFrame(cells, columns=["a", "b", "c"])
    forms: list[tuple[Any, set[str]]] = [(rows, {"a^b", "b^c", "a^c"}) for rows in (frame, frame.to_dict("records"))]
    forms += [(rows, {"0^1", "1^2", "0^2"}) for rows in (cells, sparse.csr_array(cells))]
    for rows, expected in forms:
        model = AppleRegressor(bits=10, method="linear", ngrams={"": 2}).fit(rows, [1.0, 2.0] * 20)
        names = {each.name for each in model.monomials()}
        assert expected <= names
        assert not any(name.startswith("?") for name in names)


def test_one_weight_is_that_of_all_rows() -> None:
    """As with scikit-learn's own estimators; a wrong one is refused."""
    one, many = (AppleRegressor(bits=8).fit(SMALL, SMALL[:, 1], sample_weight=each) for each in (2.0, np.full(40, 2.0)))
    assert one._online.learner.digest() == many._online.learner.digest()
    with pytest.raises(
        ValueError, match=r"sample_weight: expected finite weights from 0 to 1e12, found -1\.0 in row 0"
    ):
        AppleRegressor(bits=8).fit(SMALL, SMALL[:, 1], sample_weight=-1.0)


def test_a_seed_decides_on_the_order() -> None:
    """Another seed is another model; without shuffling the order of the rows counts."""
    digests = {
        AppleRegressor(bits=8, random_state=seed).fit(SMALL, SMALL[:, 1])._online.learner.digest() for seed in (0, 0, 1)
    }
    assert len(digests) == 2
    here, there = (AppleRegressor(bits=8, shuffle=False).fit(rows, rows[:, 1]) for rows in (SMALL, SMALL[::-1]))
    assert here._online.learner.digest() != there._online.learner.digest()


@pytest.mark.parametrize("loss", ["auto", "softmax"])
def test_all_forms_of_a_table_give_one_model(loss: str) -> None:
    """Arrays, sparse rows, and frames whose columns are called by their numbers."""
    numbered = pd.DataFrame(SMALL, columns=["0", "1", "2"])
    forms: list[Any] = [
        SMALL,
        SMALL.tolist(),
        sparse.csr_matrix(SMALL),
        sparse.coo_array(SMALL),
        sparse.dok_matrix(SMALL),
        numbered,
    ]
    forms += [
        numbered.astype(pd.SparseDtype(float, 0.0)),
        pl.from_pandas(numbered),
        numbered.to_dict("records"),
        np.asfortranarray(SMALL),
        SMALL.astype(object),
    ]
    digests = {AppleClassifier(bits=8, loss=loss).fit(form, SIGNS)._online.learner.digest() for form in forms}
    assert len(digests) == 1


@pytest.mark.filterwarnings("ignore:X ")  # scikit-learn tells that one table has names and the other has not
@pytest.mark.parametrize("parameters", [{}, {"loss": "softmax"}], ids=str)
def test_an_array_may_follow_a_frame(parameters: dict[str, Any]) -> None:
    """Its columns are those of the frame, by their places; and those of a frame are an array's that came before."""
    frame = pd.DataFrame(SMALL, columns=["a", "b=c", "d"])
    forms: list[Any] = [frame, SMALL, SMALL.tolist(), sparse.csr_matrix(SMALL), pl.from_pandas(frame)]
    forms += [SMALL.astype(object), frame.set_axis([7, 8, 9], axis=1)]
    for first in (frame, SMALL):
        model = AppleClassifier(bits=8, **parameters).fit(first, SIGNS)
        expected = model.predict_proba(first).tolist()
        for model_then in (model, pickle.loads(pickle.dumps(model))):
            assert [model_then.predict_proba(form).tolist() for form in forms] == [expected] * len(forms)
    mixed = frame.assign(t=np.where(SIGNS, "x", "y"), k=SIGNS > 0)
    for table in (mixed, mixed[["k"]]):
        model = AppleClassifier(bits=8, **parameters).fit(table, SIGNS)
        assert model.predict_proba(table.to_numpy()).tolist() == model.predict_proba(table).tolist()


def test_entries_of_one_place_are_summed() -> None:
    """As SciPy's own example counts words. Where no two are of one place, their order stays."""
    counts = np.random.default_rng(0).integers(0, 3, size=(40, 3))
    words = np.concatenate([np.repeat([2, 0, 1], counts[row, [2, 0, 1]]) for row in range(40)])
    twice = sparse.csr_matrix((np.ones(counts.sum()), words, np.concatenate([[0], counts.sum(axis=1).cumsum()])))
    model = AppleClassifier(bits=8).fit(counts, SIGNS)
    assert AppleClassifier(bits=8).fit(twice, SIGNS)._online.learner.digest() == model._online.learner.digest()
    assert model.predict_proba(twice).tolist() == model.predict_proba(counts).tolist()
    assert twice.nnz == counts.sum()  # the user's own stays as it is
    backwards = sparse.csr_matrix(([1.0, 2.0], [2, 0], [0, 2]), shape=(1, 3))
    assert model._featurizer.matrix(backwards)._asdict()["values"].tolist() == [1.0, 2.0]


def test_maps_may_follow_a_table() -> None:
    """A new fit knows nothing of the columns that were learned before."""
    frame = pd.DataFrame(SMALL, columns=["a", "b", "c"])
    model = AppleClassifier(bits=8).fit(frame, SIGNS).fit(frame[["a", "b"]].to_dict("records"), SIGNS)
    assert len(model.predict(SMALL[:, :2])) == len(frame)


def test_numbers_beside_texts_stay_numbers() -> None:
    """NumPy makes texts of all cells of a list of rows in which there is one."""
    rows = [[31, "de"], [42.5, "fr"], [31, "de"], [50, "it"]]
    models = [AppleClassifier(bits=8, method="linear").fit(form, [0, 1] * 2) for form in (rows, np.array(rows, object))]
    assert {each.name for each in models[0].monomials()} == {"0", "1=de", "1=fr", "1=it"}
    assert models[0].predict_proba(rows).tolist() == models[1].predict_proba(rows).tolist()


def test_labels_of_each_kind_come_back() -> None:
    """Texts, truths, numbers of a polars series; classes that a part of the stream lacks."""
    for names in (["no", "yes"], [False, True], [3, 7]):
        labels = np.array(names)[SIGNS]
        found = AppleClassifier(bits=8).fit(SMALL, labels)
        assert set(found.predict(SMALL).tolist()) <= set(names)
        assert found.classes_.tolist() == names
    assert AppleClassifier(bits=8).fit(SMALL, pl.Series(SIGNS)).score(SMALL, SIGNS) > 0.8
    for cells in (["no", "yes"], [False, True]):
        column = pa.array([cells[sign] for sign in SIGNS])
        assert AppleClassifier(bits=8).fit(SMALL, column).classes_.tolist() == cells
    part = AppleClassifier(bits=8).partial_fit(SMALL[:5], ["b"] * 5, classes=pa.array(["a", "b", "c"]))
    assert part.predict_proba(SMALL).shape == (40, 3)
    assert np.allclose(part.predict_proba(SMALL).sum(axis=1), 1.0)
    with pytest.raises(ValueError, match="expected classes among"):
        part.partial_fit(SMALL[:1], ["d"])
    with pytest.raises(ValueError, match="expected those of the first call"):
        part.partial_fit(SMALL[:1], ["a"], classes=["a", "b"])
    for few, message in (([], "no labels"), (["a"], r"one class: \['a'\]")):
        with pytest.raises(ValueError, match=f"y: expected labels of at least 2 classes, found {message}"):
            AppleClassifier().fit(SMALL[: len(few)], few)
    with pytest.raises(ValueError, match="expected all classes at the first call"):
        AppleClassifier().partial_fit(SMALL, SIGNS)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None, "b", "a"], "y: expected a class in each row, found None in row 1"),
        ([0.0, 1.0, math.nan, 1.0], "y: expected a class in each row, found nan in row 2"),
        (np.array([True, "a", True, "a"], object), "y: expected classes of one type, found number and text"),
        (np.array([(1,), (2,)] * 2, [("a", "f8")]), "y: expected texts, numbers or booleans as classes, found records"),
    ],
)
def test_what_is_no_class_is_named_with_its_row(labels: Any, message: str) -> None:
    """Where NumPy would fail to sort them."""
    with pytest.raises(ValueError, match=message):
        AppleClassifier(bits=8).fit(SMALL[:4], labels)


def test_objects_that_are_numbers_are_classes() -> None:
    """As pandas keeps a column that once lacked one."""
    assert AppleClassifier(bits=8).fit(SMALL[:4], np.array([0, 1, 0, 1], object)).classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (2, "classes: expected a list of labels, found 2"),
        ("ny", "classes: expected a list of labels, found 'ny'"),
        ([0, "a"], "y: expected classes of one type, found number and text"),
        ([0, math.nan], "classes: expected texts, numbers or booleans, found nan among them"),
        ([[0], [1]], "classes: expected texts, numbers or booleans, found .0. among them"),
    ],
)
def test_classes_are_a_list_of_labels(classes: Any, message: str) -> None:
    """A mistyped one would make other labels of them."""
    with pytest.raises(ValueError, match=message):
        AppleClassifier(bits=8).partial_fit(SMALL[:4], [0, 1, 0, 1], classes=classes)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["1", "2", "a", "3"], "numbers, found 'a' in row 2"),
        ([1.0, 2.0, 1e300, 3.0], r"at most 1e18 in size, found 1e\+300 in row 2"),
        ([1.0, 2.0, 3.0, math.nan], "found nan in row 3"),
        (np.array([1, 2, 3, 4], "m8[s]"), r"numbers, found timedelta64\[s\]"),
        (np.array([(1,), (2,), (3,), (4,)], [("a", "f8")]), r"numbers, found \[\('a'"),
    ],
)
def test_what_is_no_amount_is_named_with_its_row(labels: Any, found: str) -> None:
    """Nor learned as something else, nor as infinity."""
    with pytest.raises(ValueError, match=f"y: expected .*{found}"):
        AppleRegressor(bits=8).fit(SMALL[:4], labels)


def test_a_call_may_have_no_weight_at_all() -> None:
    """Its rows are scored only, as they are in a longer call; a set of such rows has nothing to learn."""
    weights = np.arange(40) % 2.0
    whole = AppleRegressor(bits=8).partial_fit(SMALL, SMALL[:, 1], sample_weight=weights)
    parts = AppleRegressor(bits=8)
    for row in range(40):
        parts.partial_fit(SMALL[row : row + 1], SMALL[row : row + 1, 1], sample_weight=weights[row : row + 1])
    assert parts._online.learner.digest() == whole._online.learner.digest()
    with pytest.raises(ValueError, match="sample_weight: expected an example of a weight above 0"):
        AppleRegressor(bits=8).fit(SMALL, SMALL[:, 1], sample_weight=0.0)
    with pytest.raises(ValueError, match="sample_weight: expected 40 weights, one for each row, found 3"):
        AppleRegressor(bits=8).partial_fit(SMALL, SMALL[:, 1], sample_weight=[1.0, 0.0, 1.0])


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf, 1e30])
def test_weights_are_those_that_a_worker_may_have(weight: float) -> None:
    """A larger one made every prediction NaN."""
    with pytest.raises(ValueError, match=r"sample_weight: expected finite weights from 0 to 1e12, found .* in row 1"):
        AppleClassifier(bits=8).fit(SMALL[:4], [0, 1, 0, 1], sample_weight=[1.0, weight, 1.0, 1.0])
    largest = AppleClassifier(bits=8).fit(SMALL[:4], [0, 1, 0, 1], sample_weight=[1.0, 1e12, 1.0, 1.0])
    assert np.isfinite(largest.predict_proba(SMALL)).all()
    huge = AppleRegressor(bits=8).fit(SMALL[:4], [1e18, -1e18, 1e18, 0.0], sample_weight=[1e12, 1.0, 1.0, 1.0])
    assert np.isfinite(huge.predict(SMALL)).all()


@pytest.mark.parametrize(
    "column", [SMALL, SMALL > 0, SMALL.round().astype(int), SMALL.astype(object)], ids=lambda c: c.dtype
)
def test_masked_cells_are_missing(column: Any) -> None:
    """NumPy's functions overlook masks, and what lies behind one would be learned; of labels and weights, too."""
    mask = SMALL[:, 0] > 0.5
    masked = np.ma.masked_array(column, np.column_stack([mask, mask, ~mask]))
    model = AppleRegressor(bits=8).fit(masked, SMALL[:, 1])
    hidden = np.where(masked.mask, np.nan if column.dtype == object else 7, masked.data)
    with_missing = np.where(masked.mask, np.nan, np.asarray(hidden, float))
    assert (
        model._online.learner.digest() == AppleRegressor(bits=8).fit(with_missing, SMALL[:, 1])._online.learner.digest()
    )
    assert model.predict(np.ma.masked_array(SMALL, mask=False)).tolist() == model.predict(SMALL).tolist()


def test_labels_and_weights_behind_a_mask_are_refused() -> None:
    """As missing ones are."""
    masked = np.ma.masked_array(np.arange(40.0), mask=np.arange(40) == 3)
    with pytest.raises(ValueError, match=r"y: expected finite numbers .*, found nan in row 3"):
        AppleRegressor(bits=8).fit(SMALL, masked)
    with pytest.raises(ValueError, match="sample_weight: expected finite weights from 0 to 1e12, found nan in row 3"):
        AppleRegressor(bits=8).partial_fit(SMALL, SMALL[:, 1], sample_weight=masked)
    for labels, found in ((masked, "nan"), (np.ma.masked_array(np.array(["a", "b"])[SIGNS], masked.mask), "None")):
        with pytest.raises(ValueError, match=f"y: expected a class in each row, found {found} in row 3"):
            AppleClassifier(bits=8).fit(SMALL, labels)


def test_texts_of_any_length_are_texts() -> None:
    """NumPy has two types of them, and texts that look like numbers are categories in both."""
    texts = np.array([["1", "x"], ["2", ""], ["1", "y"], ["3", "x"]])
    models = [AppleClassifier(bits=8).fit(form, [0, 1] * 2) for form in (texts, texts.astype(np.dtypes.StringDType()))]
    assert {each.name for each in models[1].monomials()} >= {"0=1", "0=2", "1=x"}
    assert models[0].predict_proba(texts).tolist() == models[1].predict_proba(texts).tolist()
    labels = np.array(["no", "yes"]).astype(np.dtypes.StringDType())[SIGNS]
    assert AppleClassifier(bits=8).fit(SMALL, labels).classes_.tolist() == ["no", "yes"]


def test_missing_cells_among_numbers_of_an_array_are_absent() -> None:
    """Also pandas' own, for which NumPy has no number."""
    cells = [[1.0, pd.NA], [2.0, 3.0], [4.0, 1.0], [2.0, np.float32(1.5)]]
    plain = [[1.0, np.nan], [2.0, 3.0], [4.0, 1.0], [2.0, 1.5]]
    models = [AppleClassifier(bits=8).fit(form, [0, 1] * 2) for form in (np.array(cells, object), cells, plain)]
    assert len({model._online.learner.digest() for model in models}) == 1


@pytest.mark.parametrize("first", [False, True])
def test_a_refused_call_changes_nothing(first: bool) -> None:  # noqa: FBT001  of a test
    """A model that was good goes on, and one that has learned nothing is no model: not even its classes are decided."""
    model = AppleClassifier(bits=8)
    if not first:
        model.fit(SMALL, SIGNS)
    before = dict(vars(model))
    other = pd.DataFrame({"a": SMALL[:, 0], "b": SIGNS})
    wrong: list[tuple[Any, Any, Any]] = [(other, SIGNS, -1.0), (other, [0, 1], None), (other, [None] * 40, None)]
    for rows, labels, weights in wrong:
        with pytest.raises(ValueError, match=r"sample_weight|inconsistent numbers|expected a class"):
            model.fit(rows, labels, sample_weight=weights)
        assert vars(model) == before
    if first:
        wrong = [(SMALL, SIGNS + 1, None), (SMALL, SIGNS, [1.0]), (other[:0], [], None)]
        for rows, labels, weights in wrong:
            with pytest.raises(ValueError, match=r"expected classes among|sample_weight|0 sample"):
                model.partial_fit(rows, labels, classes=[0, 1], sample_weight=weights)
        assert model.partial_fit(SMALL, SIGNS + 1, classes=[0, 1, 2]).classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            np.array([(1.0, 2.0)] * 4, "f8,f8"),
            r"X: expected an array of numbers or texts, found one of records, .*'f1'",
        ),
        (np.array([[1.0, 1j]] * 4, object), "row 0: expected a number, a text or a boolean as '1', found 1j"),
        (["a text"] * 4, "X: expected rows of cells, a two-dimensional array, found 1 dimensions"),
        (pd.Series(["a text"] * 4), "X: expected rows of cells, a two-dimensional array, found 1 dimensions"),
        (np.array([[b"\xff"]] * 4), r"the array: expected texts in UTF-8, found b'\\xff'"),
        ([[b"a", 1]] * 4, "row 0: expected a number, a text or a boolean .* as '0', found b'a'"),
        (np.array([[0.0, 1.0], [1.0, 2.0**60]] * 2), r"row 1: expected a number below 2\^60 .* as '1'"),
        (sparse.csr_matrix([[0.0, 1.0], [0.0, 2.0**60]] * 2), r"row 1: expected a number below 2\^60 .* as '1'"),
        (
            sparse.csr_matrix((np.ones(4), [0, 1, 2, 3], [0, 1, 2, 3, 4]), shape=(4, 3)),
            "X: expected columns from 0 to 2, found 3",
        ),
        (
            sparse.csr_matrix((np.ones(4), [0, 1, 2, -1], [0, 1, 2, 3, 4]), shape=(4, 3)),
            "X: expected columns from 0 to 2, found -1",
        ),
        ({"a": [1, 2, 3, 4]}, "X: expected a frame, an array, a sparse matrix or a list of maps, found a dict"),
        (iter([{"a": 1}] * 4), "X: expected a frame, .* found a list_iterator"),
        (pl.DataFrame({"a": [1, 2, 3, 4]}).lazy(), "X: expected a frame, .* found a LazyFrame"),
        ([[1, 2], [1], [2], [3]], "X: expected rows of one length, found 2 cells in row 0 and 1 in row 1"),
        ([{"a": 1}, None, {"a": 2}, {"a": 3}], "row 1: expected a map of names to values, .* found None"),
        (np.array([["2026-01-01"]] * 4, "M8[D]"), "row 0: expected a number, .*times are for 'times'"),
        (np.array([[np.datetime64("2026-01-01")]] * 4, object), "times are for 'times'"),
    ],
)
def test_what_is_no_table_is_refused(rows: Any, message: str) -> None:
    """With what was expected; times of an array are not taken for numbers."""
    with pytest.raises(ValueError, match=message):
        AppleClassifier(bits=8).fit(rows, [0, 1, 0, 1])


def test_maps_come_in_arrays_and_in_series_too() -> None:
    """Such as the column of a frame that holds the features of messages; one map is explained."""
    maps = [{"a": float(number), "b": "xy"[number % 2]} for number in range(8)]
    model = AppleClassifier(bits=8).fit(maps, [0, 1] * 4)
    for same in (np.array(maps), pd.Series(maps), tuple(maps)):
        assert (
            AppleClassifier(bits=8).fit(same, [0, 1] * 4).predict_proba(maps).tolist()
            == model.predict_proba(maps).tolist()
        )
    assert model.explain(maps[0]) == model.explain(maps[:1])
    no_numbers: list[Any] = [-1, "x", 2.5]
    for wrong in no_numbers:
        with pytest.raises(ValueError, match="top: expected a whole number from 0 on"):
            model.monomials(wrong)


def test_more_features_than_an_example_may_have_are_refused() -> None:
    """With the row's number: the rest would be left out. Too many classes are told as labels."""
    rows = np.eye(40, 5) + 1.0
    fits = AppleClassifier(bits=8, max_features_per_example=6).fit(rows, [0, 1] * 20)
    wide = [{"a": 1.0}, {str(number): 1.0 for number in range(6)}]
    with pytest.raises(ValueError, match=r"row 1: expected at most 5 features \(max_features_per_example\), found 6"):
        fits.predict(wide)
    with pytest.raises(ValueError, match="row 0: expected at most 4 features"):
        AppleClassifier(bits=8, max_features_per_example=5).fit(rows, [0, 1] * 20)
    with pytest.raises(ValueError, match="row 0: expected at most 2 features"):
        AppleClassifier(bits=8, max_features_per_example=6, ngrams={"*": 2}).fit(rows, [0, 1] * 20)
    with pytest.raises(ValueError, match="y: expected labels of at most 1,000 classes, found 1,001"):
        AppleClassifier(bits=8).partial_fit(np.ones((2, 1)), [0, 1], classes=list(range(1001)))


def test_it_goes_with_pipelines_and_searches() -> None:
    """On sets that ship with scikit-learn, and learns something of each."""
    search = GridSearchCV(
        make_pipeline(StandardScaler(), AppleClassifier(bits=10)), {"appleclassifier__learning_rate": [0.25, 0.5]}
    )
    assert search.fit(FRAME, LABELS).best_score_ > 0.95
    assert clone(search.best_estimator_).fit(CELLS, LABELS).score(CELLS, LABELS) > 0.95
    assert cross_val_score(AppleRegressor(bits=12), *load_diabetes(return_X_y=True), cv=3).mean() > 0.4
    assert cross_val_score(AppleClassifier(bits=12), *load_digits(return_X_y=True), cv=3).mean() > 0.92


def test_the_columns_of_a_frame_are_those_of_the_first() -> None:
    """A frame that lacks one, or has another, is refused; their names are kept."""
    model = AppleClassifier(bits=8).fit(FRAME, LABELS)
    assert model.feature_names_in_.tolist() == FRAME.columns.tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(FRAME.drop(columns="mean area"))


def test_epochs_end_by_hand_too() -> None:
    """Then nothing grows before."""
    model = AppleClassifier(bits=8, epoch_examples=0, passes=5, mergeable=True).fit(SMALL, SIGNS)
    assert model.n_parents_ == 0
    assert model.end_epoch().n_parents_ > 0
    assert model.progressive_loss_ > 0.0
    assert model.linear_progressive_loss_ > 0.0
