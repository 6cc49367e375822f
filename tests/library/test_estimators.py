"""The estimators of scikit-learn's interface: what `fit` makes of a set, and which inputs there are."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stream_apple import AppleClassifier, AppleRegressor
from stream_apple.core.learner.options.declared_options import DECLARED
from stream_apple.library.example_sets import MOST_COPIES

CELLS, LABELS = load_breast_cancer(return_X_y=True)
FRAME = load_breast_cancer(as_frame=True).data
SMALL = np.random.default_rng(0).normal(size=(40, 3)).round(2)
SIGNS = (SMALL[:, 0] > 0).astype(int)


def test_the_parameters_are_the_options() -> None:
    """By the same names and defaults, but for what an estimator derives; a wrong one is refused."""
    parameters = AppleClassifier().get_params()
    for name, each in DECLARED.items():
        if name not in {"loss", "classes"}:
            assert parameters[name] == each.default or (each.default == () and parameters[name] is None)
    with pytest.raises(TypeError, match="found 'bitz'"):
        AppleClassifier(bitz=3)
    with pytest.raises(ValueError, match=r"Options\.bits: expected an integer from 8 to 30, found 3"):
        AppleClassifier(bits=3).fit(SMALL, SIGNS)
    with pytest.raises(ValueError, match=r"expected options of their types, found \{'bits': 'many'\}"):
        AppleRegressor(bits="many").fit(SMALL, SIGNS)
    for name, wrong in (("passes", 0), ("passes", 1.5), ("epoch_examples", -1), ("epoch_examples", True)):
        with pytest.raises(ValueError, match=f"{name}: expected None or a whole number"):
            AppleClassifier(**{name: wrong}).fit(SMALL, SIGNS)


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
    forms: list[Any] = [SMALL, SMALL.tolist(), sparse.csr_matrix(SMALL), sparse.coo_array(SMALL), numbered]
    forms += [pl.from_pandas(numbered), numbered.to_dict("records"), np.asfortranarray(SMALL), SMALL.astype(object)]
    digests = {AppleClassifier(bits=8, loss=loss).fit(form, SIGNS)._online.learner.digest() for form in forms}
    assert len(digests) == 1


def test_labels_of_each_kind_come_back() -> None:
    """Texts, truths, numbers of a polars series; classes that a part of the stream lacks."""
    for names in (["no", "yes"], [False, True], [3, 7]):
        labels = np.array(names)[SIGNS]
        found = AppleClassifier(bits=8).fit(SMALL, labels)
        assert set(found.predict(SMALL).tolist()) <= set(names)
        assert found.classes_.tolist() == names
    assert AppleClassifier(bits=8).fit(SMALL, pl.Series(SIGNS)).score(SMALL, SIGNS) > 0.8
    part = AppleClassifier(bits=8).partial_fit(SMALL[:5], ["b"] * 5, classes=["a", "b", "c"])
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


def test_it_goes_with_pipelines_and_searches() -> None:
    """On sets that ship with scikit-learn, and learns something of each."""
    search = GridSearchCV(
        make_pipeline(StandardScaler(), AppleClassifier(bits=10)), {"appleclassifier__l1": [0.0, 1e-5]}
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


def test_users_by_the_keys_of_records_are_refused() -> None:
    """A table has no records."""
    with pytest.raises(ValueError, match="rows have no keys"):
        AppleClassifier(bits=8, personalise="key").fit(SMALL, SIGNS)


def test_epochs_end_by_hand_too() -> None:
    """Then nothing grows before."""
    model = AppleClassifier(bits=8, epoch_examples=0, passes=5, early_growth=0).fit(SMALL, SIGNS)
    assert model.n_parents_ == 0
    assert model.end_epoch().n_parents_ > 0
    assert model.progressive_loss_ > 0.0
    assert model.linear_progressive_loss_ > 0.0
