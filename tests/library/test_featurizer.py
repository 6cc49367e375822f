"""Rows of tables and maps give the keys and values that the codec gives for the equivalent message."""

import json
import math
from datetime import time
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from stream_apple.core.batch import Batch, Limits
from stream_apple.library.cells import MESSAGE, RECORD, CellRules, UnreadableCellError
from stream_apple.library.featurizer import Featurizer
from stream_apple.offline.dataset import read_batch
from stream_apple.records.mapping import ALL, InputMapping
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.feature_hashing import feature_key
from stream_apple.records.record_reader import MappedReader

LIMITS = Limits(1000, 1 << 20, 1e9, -1e9, 1e9, binary=False)
EVERY = frozenset({"spaces", "attributes"})
FLAT = InputMapping(label="", weight="", id="", features=ALL)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="."), max_size=40)
NUMBERS = st.floats(-1e17, 1e17) | st.integers(-(10**17), 10**17) | st.just(0) | st.just(1)


def decoded(rows: list[dict[str, Any]], mapping: InputMapping | None) -> Batch:
    """What the codec makes of the rows as a topic has them: records of another shape, or the product's own messages."""
    if mapping is None:
        values: list[bytes | None] = [json.dumps({"features": row}).encode() for row in rows]
        reader = None
    else:
        values, reader = [json.dumps(row).encode() for row in rows], MappedReader(mapping)
    found = Decoder(LIMITS, EVERY, reader).decode(values)
    assert not found.reasons.any()
    return found.batch


def same(found: Batch, expected: Batch, *fields: str) -> None:
    """Of the features all is the same, to the bit, or these fields are."""
    for name in fields or ("indptr", "keys", "values", "spaces", "attributes"):
        here, there = getattr(found, name), getattr(expected, name)
        assert here.dtype == there.dtype
        assert here.tolist() == there.tolist(), name


def narwhals_of(frame: Any) -> Any:
    """The frame as the featurizer takes it."""
    import narwhals.stable.v2 as nw

    return nw.from_native(frame, eager_only=True)


@given(
    st.lists(st.dictionaries(TEXTS.filter(bool), NUMBERS | TEXTS | st.booleans() | st.none(), max_size=5), max_size=5)
)
def test_maps_are_read_as_records(rows: list[dict[str, Any]]) -> None:
    """Numbers, texts, booleans and what is missing; with the columns that some learners need, and without."""
    expected = decoded(rows, FLAT)
    same(Featurizer(EVERY).maps(rows), expected)
    quick = Featurizer().maps(rows)
    same(quick, expected, "indptr", "keys", "values")


@given(
    st.lists(
        st.tuples(TEXTS, st.floats(-1e9, 1e9) | st.none(), st.integers(-9, 9), st.booleans()), min_size=1, max_size=9
    ),
    st.sampled_from(["pandas", "polars", "categories"]),
    st.booleans(),
)
def test_frames_are_read_as_records_and_as_messages(rows: list[tuple[Any, ...]], kind: str, message: bool) -> None:  # noqa: FBT001
    """By the rules of `[input]`, and by those of the stream's own message."""
    names = ["text", "price=x", "count", "new"]
    if message:
        rows = [(text or "empty", *others) for text, *others in rows]
    maps = [{name: cell for name, cell in zip(names, row, strict=True) if cell is not None} for row in rows]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    frame: Any = pl.DataFrame(columns, strict=False, schema_overrides={"price=x": pl.Float64})
    if kind != "polars":
        frame = pd.DataFrame(columns).astype({"price=x": float})
        if kind == "categories":
            frame["text"] = frame["text"].astype("category")
    reading = MESSAGE if message else RECORD
    same(Featurizer(EVERY, reading).frame(narwhals_of(frame)), decoded(maps, None if message else FLAT))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_a_category_is_known_by_its_spelling(order: list[int]) -> None:
    """Not by what was seen before in this process: to a dict 1 and True are the same. 1.0 is spelled like 1."""
    featurizer, frames = Featurizer(), [pd.Series(cells).astype("category") for cells in ([1, 0], [1.0, 0.0])]
    frames.append(pd.Series([True, False]))
    spelled = [["1", "0"], ["1", "0"], ["true", "false"]]
    for kind in order:
        found = featurizer.frame(narwhals_of(pd.DataFrame({"x": frames[kind]})))
        same(found, Featurizer().maps([{"x": text} for text in spelled[kind]]), "keys")


def test_maps_within_rows_go_through_the_codec() -> None:
    """Namespaces, sets of categories and lists of numbers, in maps and in columns."""
    rows: list[dict[str, Any]] = [
        {"user": {"city": "Rome", "age": 0.5}, "tags": ["a", "b", "a"], "at": [0.5, 2.0]},
        {"user": {"city": "Oslo"}},
    ]
    expected = decoded(rows, FLAT)
    same(Featurizer(EVERY).maps(rows), expected)
    same(Featurizer(EVERY).frame(narwhals_of(pd.DataFrame(rows))), expected)
    same(Featurizer(EVERY, RECORD, FLAT).maps(rows), expected)
    named = Featurizer()
    named.maps(rows)
    assert {"user^city=Rome", "user^age", "tags=a", "at^0"} <= set(named.names.known().values())


def test_a_point_in_a_name_means_nothing() -> None:
    """Whether the codec reads the row or not, as in a frame and in a message of the product's own; a map does."""
    row, nested = {"user.age": 0.5, "user.city": "Rome"}, {"user": {"age.now": 0.5}, "x": {"y": {"z.a": 1.0}}}
    expected = decoded([row], None)
    for found in (Featurizer().maps([row]), Featurizer(EVERY).maps([row])):
        same(found, expected, "indptr", "keys", "values")
    same(Featurizer().maps([row, {"tags": ["a"]}]).rows(0, 1), expected, "indptr", "keys", "values")
    same(Featurizer(EVERY).frame(narwhals_of(pd.DataFrame([row]))), expected)
    same(Featurizer(EVERY).maps([nested]), decoded([{"user": {"age.now": 0.5}, "x.y": {"z.a": 1.0}}], None))
    for twice in ({"x": {"y": {"z": 1.0}}, "x.y": {"a": 1.0}}, {"x": {"y": {"z": 1e300}}}):
        with pytest.raises(
            UnreadableCellError, match=r"row 0: expected (each namespace once|a number .* as 'x\.y\.z')"
        ):
            Featurizer().maps([twice])


def test_threads_number_columns_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both make the keys of the first columns: later columns have theirs all the same."""
    featurizer, cells = Featurizer(), np.ones((1, 6), np.float32)
    inside = False

    def interrupted(name: str) -> int:
        nonlocal inside
        if not inside:
            inside = True
            featurizer.array(cells[:, :3])
        return feature_key(name)

    monkeypatch.setattr("stream_apple.library.featurizer.feature_key", interrupted)
    featurizer.array(cells[:, :3])
    assert featurizer.array(cells).keys.tolist() == [feature_key(str(number)) for number in range(6)]


def test_columns_without_names_are_those_of_svmlight(tmp_path: Any) -> None:
    """A matrix, an array, and a file that scikit-learn has written."""
    cells = sparse.random_array((30, 40), density=0.2, format="csr", rng=np.random.default_rng(1), dtype=np.float32)
    dump_svmlight_file(cells.astype(np.float64), np.zeros(30), str(tmp_path / "rows.svm"), zero_based=True)
    expected = read_batch([tmp_path / "rows.svm"], LIMITS)
    wide = sparse.csr_array((cells.data, cells.indices + 10_000_000, cells.indptr), shape=(30, 10_000_040))
    for found in (Featurizer().matrix(cells), Featurizer().array(cells.toarray())):
        same(found, expected, "indptr", "keys", "values")
    keys = Featurizer().matrix(wide).keys.tolist()
    assert keys == Featurizer().maps([{str(number): 1.0} for number in wide.indices.tolist()]).keys.tolist()


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (math.inf, "expected a finite number below 2\\^60"),
        (2.0**60, "expected a finite number below 2\\^60"),
        (10**400, "expected a finite number below 2\\^60"),
        (pd.Timestamp("2026-01-01"), "say what of the time matters"),
        (np.datetime64("2026-01-01"), "say what of the time matters"),
        (np.timedelta64(5, "s"), "say what of the time matters"),
        (time(12, 30), "say what of the time matters"),
        (object(), "expected"),
    ],
    ids=["infinite", "2^60", "10^400", "a time", "NumPy's time", "NumPy's span", "a time of day", "an object"],
)
def test_what_is_no_value_is_refused(cell: Any, message: str) -> None:
    """With its column, in a map and in a frame."""
    with pytest.raises(UnreadableCellError, match=message):
        Featurizer().maps([{"x": cell}])
    with pytest.raises(UnreadableCellError, match=message):
        # As an object: older versions of pandas can't look at so large a number.
        Featurizer().frame(
            narwhals_of(pd.DataFrame({"x": pd.Series([cell], dtype=object if isinstance(cell, int) else None)}))
        )


@pytest.mark.parametrize(
    "row",
    [
        {"x\ud800": 1.0},
        {"x": "\ud800"},
        {"space": {"x": "\ud800"}},
        {"x": ["\ud800"]},
        {"\ud800": {"x": 1.0}},
        {"x\udfffy": [1.0]},
    ],
)
@pytest.mark.parametrize("rules", [RECORD, MESSAGE])
def test_half_a_character_is_refused(row: dict[str, Any], rules: CellRules) -> None:
    """Python's texts, and JSON's, can have it; UTF-8, in which names are hashed, can not."""
    with pytest.raises(UnreadableCellError, match=r"feature '.*': expected text that UTF-8 can hold.*'\\ud(800|fff)'"):
        Featurizer(reading=rules).maps([row])


def test_maps_that_never_end_are_refused() -> None:
    """By the depth that a message may have, before Python's own."""
    itself: dict[str, Any] = {}
    itself["x"] = itself
    for rules in (RECORD, MESSAGE):
        with pytest.raises(UnreadableCellError, match="row 0: expected maps at most 16 deep"):
            Featurizer(reading=rules).maps([itself])


def test_decimals_and_arrays_in_cells() -> None:
    """In maps and in frames, by both rules: a decimal is a number, an array a list. Other objects are refused."""
    rows = [{"x": Decimal("1.5"), "y": np.arange(1.0, 4.0)}, {"x": Decimal(2), "y": np.ones(3)}]
    plain = [{"x": 1.5, "y": [1.0, 2.0, 3.0]}, {"x": 2.0, "y": [1.0] * 3}]
    same(Featurizer().maps(rows), Featurizer().maps(plain), "indptr", "keys", "values")
    same(Featurizer().frame(narwhals_of(pd.DataFrame(rows))), Featurizer().maps(plain), "indptr", "keys", "values")
    message = Featurizer(reading=MESSAGE)
    same(message.maps([{"x": Decimal("1.5")}]), message.maps([{"x": 1.5}]), "indptr", "keys", "values")
    with pytest.raises(UnreadableCellError, match=r"row 1: expected numbers, texts, booleans, .* a set"):
        message.maps([{"x": 1.0}, {"x": {1, 2}}])


def test_numbers_of_any_width_are_numbers() -> None:
    """Also of types that narwhals does not know, or NumPy does not have: none becomes a category in silence."""
    plain = pd.DataFrame({"a": [3.0, -7.0, np.nan]})
    expected = Featurizer(EVERY).frame(narwhals_of(plain))
    numbers: list[Any] = [3, -7, None]
    wide = pa.array([None if each is None else Decimal(each) for each in numbers], pa.decimal256(70, 2))
    frames = [
        plain.astype(np.float16),
        plain.astype(np.longdouble),
        pa.table({"a": wide}),
        pd.DataFrame({"a": pd.array(wide, pd.ArrowDtype(wide.type))}),
        pa.table({"a": pc.run_end_encode(pa.array(numbers))}),
        pl.DataFrame({"a": numbers}, {"a": pl.Int128}),
    ]
    for frame in frames:
        same(Featurizer(EVERY).frame(narwhals_of(frame)), expected)


def test_missing_cells_of_each_kind_are_absent() -> None:
    """None, NaN, pandas' NA and NaT, and an empty text."""
    rows = {"x": [None, math.nan, pd.NA, pd.NaT, "", np.float32("nan"), np.datetime64("NaT", "s"), "there"]}
    assert Featurizer().frame(narwhals_of(pd.DataFrame(rows))).indptr.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert Featurizer().maps([{"x": cell} for cell in rows["x"]]).indptr.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 1]
    whole = pd.DataFrame({"n": pd.array([1, None], "Int64"), "b": pd.array([None, True], "boolean")})
    assert Featurizer().frame(narwhals_of(whole)).indptr.tolist() == [0, 1, 2]


def test_what_is_refused_is_named_with_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """In maps, and in frames, also where a frame is read in portions."""
    monkeypatch.setattr("stream_apple.library.featurizer._PORTION", 4)
    cells: list[Any] = [
        [1.0, 2.0, 3.0, 4.0, 5.0, 2.0**60],
        [1.0, "a", True, None, 2.5, object()],
        ["a"] * 5 + [time(1)],
    ]
    for column in cells:
        for frame in (pd.DataFrame({"x": column}), pd.DataFrame({"x": column, "y": 1.0})):
            with pytest.raises(
                UnreadableCellError, match=r"^row 5: column 'x': expected|^row 5: feature 'x': expected"
            ):
                Featurizer().frame(narwhals_of(frame))
        with pytest.raises(UnreadableCellError, match=r"^row 5: "):
            Featurizer().maps([{"x": cell} for cell in column])


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical([1, 2, None, 1]),
        pd.Categorical([1.5, True, "x", ""]),
        pa.array([3, None, 4, 3]).dictionary_encode(),
        np.array([1.5, 2.0, 0.0, np.nan], np.longdouble),
    ],
    ids=["whole numbers", "of several types", "of pyarrow", "wide floats"],
)
def test_a_cell_means_the_same_beside_maps_and_decimals(column: Any) -> None:
    """Which the codec reads: a category that is a number was a number there, in silence."""
    kind = pa.table if isinstance(column, pa.Array) else pd.DataFrame
    alone = Featurizer(EVERY).frame(narwhals_of(kind({"x": column})))
    beside = Featurizer(EVERY).frame(narwhals_of(kind({"x": column, "y": [Decimal(0)] * 4, "z": [[""]] * 4})))
    same(beside, alone)
