"""Rows of tables and maps give the keys and values that records of a topic with the same content give."""

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
from stream_apple.library.cells import UnreadableCellError
from stream_apple.library.featurizer import ROW, Featurizer
from stream_apple.offline.dataset import read_batch
from stream_apple.records.mapping import ALL, InputMapping
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.feature_hashing import feature_key
from stream_apple.records.record_reader import MappedReader

LIMITS = Limits(1000, 1 << 20, 1e9, -1e9, 1e9, binary=False)
EVERY = frozenset({"spaces", "attributes"})
FLAT = InputMapping(label="", weight="", id="", features=ALL)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
KEYS = ("indptr", "keys", "values")
NUMBERS = st.floats(-1e17, 1e17) | st.integers(-(10**17), 10**17) | st.just(0) | st.just(1)


def topic(rows: list[dict[str, Any]], mapping: InputMapping | None) -> Batch | None:
    """What the decoder makes of the rows as records of a topic, None if it refuses one.

    mapping  of records of another shape; None: the rows are the features of the product's own messages
    """
    if mapping is None:
        values: list[bytes | None] = [json.dumps({"features": row}).encode() for row in rows]
        reader = None
    else:
        values, reader = [json.dumps(row).encode() for row in rows], MappedReader(mapping)
    found = Decoder(LIMITS, EVERY, reader).decode(values)
    return None if found.reasons.any() else found.batch


def decoded(rows: list[dict[str, Any]], mapping: InputMapping | None) -> Batch:
    """What `topic` returns, of rows that are not refused."""
    found = topic(rows, mapping)
    assert found is not None
    return found


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
    """Numbers, texts, booleans and what is missing, under any names; with the columns of some learners, and without."""
    expected = topic(rows, FLAT)
    if expected is None:  # the same feature twice
        for featurizer in (Featurizer(EVERY), Featurizer()):
            with pytest.raises(UnreadableCellError, match="each field once"):
                featurizer.maps(rows)
        return
    same(Featurizer(EVERY).maps(rows), expected)
    same(Featurizer().maps(rows), expected, *KEYS)


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
    expected = decoded(maps, None if message else FLAT)
    same(Featurizer(EVERY, own_message=message).frame(narwhals_of(frame)), expected)
    same(Featurizer(own_message=message).frame(narwhals_of(frame)), expected, *KEYS)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_a_category_is_known_by_its_spelling(order: list[int]) -> None:
    """Not by what was seen before in this process: to a dict 1 and True are the same. 1.0 is spelled like 1."""
    featurizer, frames = Featurizer(), [pd.Series(cells).astype("category") for cells in ([1, 0], [1.0, 0.0])]
    frames.append(pd.Series([True, False]))
    spelled = [["1", "0"], ["1", "0"], ["true", "false"]]
    for kind in order:
        found = featurizer.frame(narwhals_of(pd.DataFrame({"x": frames[kind]})))
        same(found, Featurizer().maps([{"x": text} for text in spelled[kind]]), "keys")


def test_maps_and_lists_are_read_as_records() -> None:
    """Namespaces, sets of categories and lists of numbers, in maps and in columns."""
    rows: list[dict[str, Any]] = [
        {"user": {"city": "Rome", "age": 0.5}, "tags": ["a", "b", "a"], "at": [0.5, 2.0]},
        {"user": {"city": "Oslo"}},
    ]
    expected = decoded(rows, FLAT)
    same(Featurizer(EVERY).maps(rows), expected)
    same(Featurizer(EVERY).frame(narwhals_of(pd.DataFrame(rows))), expected)
    named = Featurizer()
    named.maps(rows)
    assert {"user^city=Rome", "user^age", "tags=a", "at^0"} <= set(named.names.known().values())


def test_a_name_with_points_is_a_path() -> None:
    """As a nested field has it, in maps, frames, and matrices; a message of the product's own knows no paths."""
    nested = [{"user": {"age": 0.5, "zip": 3}, "x": {"y": {"z.a": 1.0}}}]
    flat = [{"user.age": 0.5, "user.zip": 3, "x.y.z.a": 1.0}]
    expected = decoded(nested, FLAT)
    for rows in (nested, flat):
        same(Featurizer(EVERY).maps(rows), expected)
        same(Featurizer().maps(rows), expected, *KEYS)
        same(Featurizer().frame(narwhals_of(pd.DataFrame(rows))), expected, *KEYS)
    names, cells = list(flat[0]), np.array([list(flat[0].values())])
    same(Featurizer().array(cells, names), expected, *KEYS)
    same(Featurizer().matrix(sparse.csr_array(cells), names), expected, *KEYS)
    same(Featurizer(own_message=True).maps(flat), decoded(flat, None), *KEYS)


CELLS = (
    st.floats(-(2.0**56), 2.0**56, width=32) | st.floats(-1e17, 1e17) | st.sampled_from([0.0, -0.0, math.nan, 1e-50])
)


@given(
    st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1)),
    st.sampled_from([np.float32, np.float64, np.longdouble]),
    st.sampled_from([["a", "b", "c", "d"], ["a.x", "a.y", "b.x", "d"], ["a.x", "b.x", "a.y", "d"]]),
)
def test_matrices_of_numbers_agree_with_the_mapper(rows: list[list[float]], dtype: type, names: list[str]) -> None:
    """Arrays, sparse rows, and frames of numbers take a fast path; names of one namespace need not be side by side."""
    cells: Any = np.array(rows, dtype)
    names = names[: cells.shape[1]]
    expected = Featurizer(EVERY).maps([dict(zip(names, map(float, row), strict=True)) for row in cells])
    same(Featurizer().array(cells, names), expected, *KEYS)
    frame = pd.DataFrame(cells, columns=names)
    same(Featurizer().frame(narwhals_of(frame)), expected, *KEYS)
    stored = sparse.csr_array(cells.astype(np.float64))
    by_row = [
        {names[column]: float(stored.data[place]) for place, column in enumerate(stored.indices[start:stop], start)}
        for start, stop in zip(stored.indptr, stored.indptr[1:], strict=False)
    ]
    same(Featurizer().matrix(stored, names), Featurizer(EVERY).maps(by_row), *KEYS)


def test_large_integers_agree_with_the_mapper() -> None:
    """They become values by way of 64-bit floats, in which these are rounded a first time."""
    cells = [[2**53 + 1, 2**24 + 1, -(2**58) - (2**34) - 1]]
    expected = Featurizer(EVERY).maps([dict(zip("012", cells[0], strict=True))])
    for form in (np.array(cells), np.array(cells, object)):
        same(Featurizer().array(form), expected, *KEYS)
    same(Featurizer().frame(narwhals_of(pd.DataFrame(cells, columns=list("012")))), expected, *KEYS)
    same(Featurizer().maps([dict(zip("012", cells[0], strict=True))]), expected, *KEYS)


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
        same(found, expected, *KEYS)
    keys = Featurizer().matrix(wide).keys.tolist()
    assert keys == Featurizer().maps([{str(number): 1.0} for number in wide.indices.tolist()]).keys.tolist()


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (math.inf, "expected a number below 2\\^60 .* as 'x', found inf"),
        (2.0**60, "expected a number below 2\\^60"),
        (10**400, "expected a number below 2\\^60"),
        (pd.Timestamp("2026-01-01"), r"times are for 'times', .* as 'x', found 2026-01-01"),
        (np.datetime64("2026-01-01"), "times are for 'times'"),
        (np.datetime64("2026-01-01", "ns"), "times are for 'times'"),
        (np.timedelta64(5, "s"), "expected a number, a text or a boolean as 'x'"),
        (time(12, 30), "times are for 'times'"),
        (b"raw", "bytes are for 'id'"),
        (object(), "expected a number, a text or a boolean as 'x'"),
        (1j, "expected a number, a text or a boolean as 'x'"),
        ({1, 2}, "expected a number, a text or a boolean as 'x'"),
        ([["a"]], "expected a list of texts, or one of numbers as 'x'"),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, str) else "",
)
def test_what_is_no_value_is_refused(cell: Any, message: str) -> None:
    """With its column, in a map and in a frame; `unreadable` leaves it out."""
    # As an object: older versions of pandas can't look at so large a number.
    kind = object if isinstance(cell, int | list | set) else None
    frame = narwhals_of(pd.DataFrame({"x": pd.Series([cell], dtype=kind), "y": [1.0]}))
    for columns in (EVERY, frozenset[str]()):
        strict, lenient = Featurizer(columns), Featurizer(columns, ROW._replace(unreadable="leave_out"))
        with pytest.raises(UnreadableCellError, match=f"^row 0: .*{message}"):
            strict.maps([{"x": cell, "y": 1.0}])
        with pytest.raises(UnreadableCellError, match=f"^row 0: .*{message}"):
            strict.frame(frame)
        for found in (lenient.maps([{"x": cell, "y": 1.0}]), lenient.frame(frame)):
            same(found, Featurizer(columns).maps([{"y": 1.0}]), *KEYS)


@pytest.mark.parametrize(
    "row",
    [
        {"x\ud800": 1.0},
        {"x": "\ud800"},
        {"space": {"x": "\ud800"}},
        {"x": ["\ud800"]},
        {"\ud800": {"x": 1.0}},
    ],
)
@pytest.mark.parametrize("own_message", [False, True])
def test_half_a_character_is_refused(row: dict[str, Any], own_message: bool) -> None:  # noqa: FBT001  of a test
    """Python's texts, and JSON's, can have it; UTF-8, in which names are hashed, can not."""
    expected = r"feature '.*': expected text that UTF-8 can hold.*'\\ud800'|expected a number, true, false or a text"
    with pytest.raises(UnreadableCellError, match=expected):
        Featurizer(own_message=own_message).maps([row])


def test_maps_that_never_end_are_refused() -> None:
    """By the depth that the mapper allows, before Python's own."""
    itself: dict[str, Any] = {}
    itself["x"] = itself
    with pytest.raises(UnreadableCellError, match="row 0: expected maps at most 16 deep"):
        Featurizer().maps([itself])
    with pytest.raises(UnreadableCellError, match="row 0: expected a number, true, false or a text"):
        Featurizer(own_message=True).maps([itself])


def test_decimals_and_arrays_in_cells() -> None:
    """In maps and in frames: a decimal is a number, also in a message of the product's own, and an array is a list."""
    rows = [{"x": Decimal("1.5"), "y": np.arange(1.0, 4.0)}, {"x": Decimal(2), "y": np.ones(3)}]
    plain = [{"x": 1.5, "y": [1.0, 2.0, 3.0]}, {"x": 2.0, "y": [1.0] * 3}]
    same(Featurizer().maps(rows), Featurizer().maps(plain), *KEYS)
    same(Featurizer().frame(narwhals_of(pd.DataFrame(rows))), Featurizer().maps(plain), *KEYS)
    message = Featurizer(own_message=True)
    same(message.maps([{"x": Decimal("1.5")}]), message.maps([{"x": 1.5}]), *KEYS)


def test_fields_are_what_the_mapping_says() -> None:
    """In maps, frames, and matrices: categories, numbers in texts, times, and what is ignored."""
    mapping = ROW._replace(categories=("c",), numbers=("n",), times=("t",), ignore=("i",), time_zone="Europe/Rome")
    rows = [{"c": 7.10, "n": "12", "t": "2024-05-01T23:30:00Z", "i": 1.0}, {"c": 7, "n": True, "t": 1.7e9, "i": "x"}]
    expected = decoded(rows, FLAT._replace(**mapping._asdict()))
    for form in (rows, pd.DataFrame(rows, dtype=object)):
        for columns, fields in ((EVERY, ()), (frozenset[str](), KEYS)):
            featurizer = Featurizer(columns, mapping)
            found = featurizer.maps(form) if isinstance(form, list) else featurizer.frame(narwhals_of(form))
            same(found, expected, *fields)
    cells = np.array([[7.5, 1.0, 2.0], [7.0, 1.0, 3.0]])
    numbered = Featurizer(mapping=ROW._replace(categories=("0",), ignore=("1",)))
    by_row = Featurizer().maps([{"0": "7.5", "2": 2.0}, {"0": "7", "2": 3.0}])
    same(numbered.array(cells), by_row, *KEYS)
    same(numbered.matrix(sparse.csr_array(cells)), by_row, *KEYS)
    lenient = Featurizer(mapping=ROW._replace(unreadable="leave_out"))
    same(lenient.array(np.array([[1.0, math.inf, 2.0]])), Featurizer().maps([{"0": 1.0, "2": 2.0}]), *KEYS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (("not", "good"), "not good"),
        (("a", ""), "a"),
        (3, "3"),
        (np.int64(3), "3"),
        (1.5, "1.5"),
        (2.0, "2"),
        (True, "true"),
        (np.str_("x"), "x"),
        (("a", 1, False), "a 1 false"),
    ],
)
def test_names_are_spelled(name: Any, text: str) -> None:
    """Tuples, such as n-grams of River, numbers, and booleans, in maps and in frames."""
    expected = Featurizer().maps([{text: 2.0, "y": "a"}])
    same(Featurizer().maps([{name: 2.0, "y": "a"}]), expected, *KEYS)
    same(Featurizer(EVERY).maps([{name: 2.0, "y": "a"}]), expected, *KEYS)
    frame = pd.DataFrame([[2.0, "a"]], columns=pd.Index([name, "y"], dtype=object, tupleize_cols=False))
    same(Featurizer().frame(narwhals_of(frame)), expected, *KEYS)


def test_the_levels_of_a_name_are_spelled() -> None:
    """Of pandas' MultiIndex."""
    frame = pd.DataFrame([[1.0, 2.0]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("b", "")]))
    same(Featurizer().frame(narwhals_of(frame)), Featurizer().maps([{"a x": 1.0, "b": 2.0}]), *KEYS)


@pytest.mark.parametrize("row", [{1: 1.0, "1": 2.0}, {"a": "b", "a=b": 1.0}, {("a", "b"): 1.0, "a b": 1.0}])
def test_one_feature_twice_is_refused(row: dict[Any, Any]) -> None:
    """Whichever path the row takes."""
    for columns in (EVERY, frozenset[str]()):
        with pytest.raises(UnreadableCellError, match=r"row 0: expected each (name|field) once, found '.*' again"):
            Featurizer(columns).maps([row])


@pytest.mark.parametrize("name", [None, math.nan, object(), ("a", None)])
def test_what_is_no_name_is_refused(name: Any) -> None:
    """In words."""
    with pytest.raises(UnreadableCellError, match="a tuple of these as name of a feature, found"):
        Featurizer().maps([{name: 1.0}])


def test_row_numbers_are_no_features() -> None:
    """Neither pandas' index, with a name or without, nor a column that it has become; unless a setting names it."""
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    expected = Featurizer().frame(narwhals_of(frame))
    for index in (pd.Index([7, 8]), pd.Index([7, 8], name="id")):
        same(Featurizer().frame(narwhals_of(frame.set_index(index))), expected, *KEYS)
    hidden = [frame.assign(**{name: [0, 1]}) for name in ("Unnamed: 0", "__index_level_0__")]
    hidden.append(pa.Table.from_pandas(frame.set_index(pd.Index([7, 8], name="id")), preserve_index=True))
    for table in hidden:
        with pytest.warns(UserWarning, match="holds row numbers, and is no feature") as warned:
            same(Featurizer().frame(narwhals_of(table)), expected, *KEYS)
        assert len(warned) == 1
    wanted = Featurizer(mapping=ROW._replace(numbers=("Unnamed: 0",)))
    rows = [{"a": 1.0, "Unnamed: 0": 0}, {"a": 2.0, "Unnamed: 0": 1}]
    same(wanted.frame(narwhals_of(hidden[0])), wanted.maps(rows), *KEYS)
    assert len(wanted.maps(rows).keys) == 3


def test_times_that_python_can_not_hold_are_refused() -> None:
    """With the column, and what helps."""
    table = pa.table({"x": pa.array([10**15], pa.timestamp("s"))})
    with pytest.raises(
        UnreadableCellError, match=r"column 'x': expected values of timestamp\[s\] that Python can hold"
    ):
        Featurizer().frame(narwhals_of(table))


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
            with pytest.raises(UnreadableCellError, match=r"^row 5: expected .* as 'x', found"):
                Featurizer().frame(narwhals_of(frame))
        with pytest.raises(UnreadableCellError, match=r"^row 5: "):
            Featurizer().maps([{"x": cell} for cell in column])


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical([1, 2, None, 1]),
        pd.Categorical([1.5, True, "x", ""]),
        pd.Categorical(["x", np.nan, "nan", ""]),
        pa.array([3, None, 4, 3]).dictionary_encode(),
        np.array([1.5, 2.0, 0.0, np.nan], np.longdouble),
    ],
    ids=["whole numbers", "of several types", "missing", "of pyarrow", "wide floats"],
)
def test_a_cell_means_the_same_beside_maps_and_decimals(column: Any) -> None:
    """Whose rows take another path."""
    kind = pa.table if isinstance(column, pa.Array) else pd.DataFrame
    alone = Featurizer(EVERY).frame(narwhals_of(kind({"x": column})))
    beside = Featurizer(EVERY).frame(narwhals_of(kind({"x": column, "y": [Decimal(0)] * 4, "z": [[""]] * 4})))
    same(beside, alone)
