"""A model that has learned elsewhere: what it may be asked in Python, without Kafka."""

import copy
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from support.asgi import learned

from stream_apple import load_model
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.library.models import LearnedModel
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.positions.lineage import SnapshotPointer


@pytest.fixture
def model() -> LearnedModel:
    """One whose `price` decides."""
    return LearnedModel(learned(), Config(), Names(), SnapshotPointer(0, 0, 0, "0" * 32))


def test_a_row_comes_in_each_form(model: LearnedModel) -> None:
    """A map, maps in a list, an array or a series, frames; and there may be none."""
    row = {"price": 1.0, "note": Decimal("1.5")}
    expected = model.predict(row).tolist()
    frames: list[Any] = [[row], (row,), np.array([row]), pd.Series([row]), pd.DataFrame([row]), pl.DataFrame([row])]
    for rows in frames:
        assert model.predict(rows).tolist() == expected
    many = np.full((1, 4097), np.nan)  # missing cells are not in the row, and of an array nor are zeros
    assert model.predict(pd.DataFrame(many)).tolist() == model.predict(np.zeros((1, 4097))).tolist()
    nothing: list[Any] = [[], np.ones((0, 3)), pd.DataFrame({"price": []})]
    for rows in nothing:
        assert model.predict(rows).tolist() == []
    masked = np.ma.masked_array([[1.0, 2.0]], mask=[[False, True]])
    assert model.predict(masked).tolist() == model.predict([[1.0, np.nan]]).tolist()
    assert model.predict([["a", 1.0]]).tolist() == model.predict([{"0": "a", "1": 1.0}]).tolist()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (None, "X: expected a frame, .* found a NoneType"),
        (3, "X: expected a frame, .* found a int"),
        (pd.Series([1.0]), "X: expected a frame, .* found a Series"),
        ("price", "X: expected a frame, .* found a str"),
        (np.ones(3), "X: expected rows of cells, a two-dimensional array, found 1 dimensions"),
        (
            np.array([["2026"]], "M8[Y]"),
            "row 0: expected a number, true, false or a text as value of feature '0' .*2026",
        ),
        ([{"a": 1e308}], r"row 0: expected a number below 2\^60 in size as value of feature 'a', found 1e\+308"),
        ([{"a": {"b": 2**70}}], "row 0: expected a number below 2.60 in size as value of feature 'a: b', found"),
        ([{"a": dict.fromkeys(map(str, range(4097)), 0.0)}], "row 0: expected at most 4096 features, found more"),
        ([{"a": 1.0}, {"a": 1j}], "row 1: expected a number, true, false or a text as value of feature 'a'"),
        ([{}, dict.fromkeys(map(str, range(4097)), 0.0)], r"row 1: expected at most 4,096 features .*, found 4,097"),
        (pd.DataFrame(np.zeros((1, 4097))), r"row 0: expected at most 4,096 features \(limits.max_features\)"),
        (np.array([(1.0, 2.0)], "f8,f8"), "X: expected rows of cells, a two-dimensional array, found 1 dimensions"),
        (sparse.coo_array(np.ones(3)), "X: expected rows of cells, a two-dimensional array, found 1 dimensions"),
        (np.ones((1, 2), complex), "X: expected real numbers, found complex128"),
        (sparse.csr_array(np.ones((1, 2), complex)), "X: expected real numbers, found complex128"),
        (np.array([[(1.0, 2.0)]], "f8,f8"), "X: expected an array of numbers or texts, found one of records"),
        ([{}, {"a": 1e308}], "row 1: expected a number below 2.60 .*'a'"),
        ([{"values": "text"}], "row 0: expected numbers, or bytes as packed features, under 'values', found 'text'"),
        (pd.DataFrame({"indices": ["1"]}), "row 0: expected numbers, or bytes as packed features, .* '1'"),
        (np.ones((2, 4097)), r"row 0: expected at most 4,096 features \(limits.max_features\), found 4,097"),
    ],
)
def test_what_is_no_table_is_refused(model: LearnedModel, rows: Any, message: str) -> None:
    """With what was expected and what was found."""
    with pytest.raises(ValueError, match=message):
        model.predict(rows)


def test_records_are_refused_as_the_worker_refuses_them() -> None:
    """Of groups with a section `input` rows are whole records, whose labels and weights are held to its limits."""
    config = Config.model_validate({"input": {"label": "paid", "weight": "w", "features": "*"}})
    model = LearnedModel(learned(), config, Names(), SnapshotPointer(0, 0, 0, "0" * 32))
    assert model.predict([{"price": 1.0, "paid": 1e9, "w": 1e6}]).tolist() == model.predict([{"price": 1.0}]).tolist()
    for record, fault in (
        ({"paid": 2e9}, "row 0: expected a label from -1e.09 to 1e.09 .*, found a number: 2000000000.0, in 'paid'$"),
        ({"w": 2e6}, "row 0: expected a weight from 0 to 1e.06 .*, found a number: 2000000.0, in 'w'$"),
    ):
        with pytest.raises(ValueError, match=fault):
            model.predict([{"price": 1.0} | record])


def test_it_is_saved_and_not_pickled(model: LearnedModel) -> None:
    """The error says how."""
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"save\(path\) writes it, and load_model\(path\) reads it"):
            make(model)


def test_which_model_is_checked_before_kafka_is_asked() -> None:
    """No broker is there."""
    here = Config()
    for name, number in (("partition", "3"), ("partition", -1), ("offset", 2.5), ("offset", True)):
        asked: dict[str, Any] = {"partition": 0, name: number}
        with pytest.raises(ConfigurationError, match=f"{name}: expected a whole number from 0 on, found {number!r}"):
            load_model(here, **asked)
    nowhere: Any = None
    with pytest.raises(ConfigurationError, match="expected the path of a file, or a Config, found None"):
        load_model(nowhere)
