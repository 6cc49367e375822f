"""CSV and Parquet: what columns become, their roles, what is missing, bounded memory, and errors that say where."""

import builtins
import gzip
import io
import struct
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyarrow import parquet
from support.file_formats import detect, flat_examples, shape_of

from stream_apple.errors import ConfigurationError, InputFileError
from stream_apple.files import FileNotes, FileShape, input_stream, read_examples
from stream_apple.files.detection import FileFormat
from stream_apple.records.message.example import Example

Write = Callable[[str | bytes], Path]
WriteTable = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Put text or bytes into a file whose name says nothing."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "table"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def write_table(tmp_path: Path) -> WriteTable:
    """Put columns into a Parquet file."""

    def write_table(columns: dict[str, Any], **options: Any) -> Path:
        path = tmp_path / "table"
        parquet.write_table(pa.table(columns), path, **options)
        return path

    return write_table


TEXT = "label,age,city,id,weight\n1,3.5,Rome,007,2\n0,,Oslo,008,\n,-1e3,,,0.5\n"
EXAMPLES = [
    Example(1.0, 2.0, "007", {"age": 3.5, "city=Rome": 1.0}),
    Example(0.0, 1.0, "008", {"city=Oslo": 1.0}),
    Example(None, 0.5, None, {"age": -1000.0}),
]


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        "\ufeff" + TEXT,
        "\n# a comment\n" + TEXT.replace("\n", "\r\n"),
        TEXT.replace(",", "\t"),
        TEXT.replace(",", ", "),
        TEXT.replace("Rome", '"Rome"').rstrip("\n"),
        gzip.compress(TEXT.encode(), mtime=0),
    ],
)
def test_csv_has_columns_of_numbers_and_of_categories(content: str | bytes, write: Write) -> None:
    """Each row is an example; empty cells are missing; with byte order mark, comments, tabs, quotes, or gzipped."""
    path = write(content)
    assert detect(path) is FileFormat.CSV
    assert flat_examples(path) == EXAMPLES


def test_csv_comes_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input is read like a file."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert flat_examples(input_stream.STDIN) == EXAMPLES


def test_parquet_has_the_same_examples(write_table: WriteTable) -> None:
    """Null is missing, and so is NaN."""
    path = write_table(
        {
            "label": [1, 0, None],
            "age": [3.5, float("nan"), -1e3],
            "city": ["Rome", "Oslo", None],
            "id": ["007", "008", None],
            "weight": [2.0, None, 0.5],
        }
    )
    assert detect(path) is FileFormat.PARQUET
    assert flat_examples(path) == EXAMPLES


def test_quoted_cells_hold_anything(write: Write) -> None:
    """Commas, quotes and line ends; the name of the feature is the text as it stands."""
    path = write('label,"a ""b"" c",city\n1,2,"São, ""Paulo""\nBrasil"\n0,3,x\n')
    assert [example.features for example in flat_examples(path)] == [
        {'a "b" c': 2.0, 'city=São, "Paulo"\nBrasil': 1.0},
        {'a "b" c': 3.0, "city=x": 1.0},
    ]


MARKERS = ["NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "#NA", "\\N"]


@pytest.mark.parametrize("marker", MARKERS)
def test_markers_are_missing_in_every_column(marker: str, write: Write) -> None:
    """In numbers, categories, times, ids, weights, and labels, whether or not the kind of the column is named."""
    path = write(
        f"label,age,country,id,weight,at\n1,{marker},{marker},{marker},{marker},{marker}\n{marker},4,DE,a,2,2024-05-01\n"
    )
    first, second = flat_examples(path)
    assert first == Example(1.0, 1.0, None, {})
    assert second == Example(None, 2.0, "a", {"age": 4.0, "country=DE": 1.0, "at=2024-05-01": 1.0})
    first, second = flat_examples(path, shape_of(categories=("country", "age"), times=("at",)))
    assert first == Example(1.0, 1.0, None, {})
    assert set(second.features) == {"", "at"}
    assert flat_examples(path, shape_of(numbers=("age",)))[0] == Example(1.0, 1.0, None, {})


def test_a_marker_may_be_a_label(write: Write) -> None:
    """If label_map says so."""
    path = write("label,a\nNone,1\nsome,2\nNA,3\n")
    assert [each.label for each in flat_examples(path, shape_of(label_map={"None": 0.0, "some": 1.0}))] == [
        0.0,
        1.0,
        None,
    ]


def noted(path: Path, shape: FileShape) -> tuple[list[Example], list[str]]:
    """The examples of a file, and what is said about it."""
    notes = FileNotes()
    return flat_examples(path, shape._replace(notes=notes)), notes.texts


def test_a_column_of_numbers_has_95_percent_of_them(write: Write) -> None:
    """Its other cells are missing, and are counted, also those that come late."""
    rows = [*(f"1,{number}" for number in range(95)), *["1,?"] * 4, "1,-"]
    examples, notes = noted(write("label,hp\n" + "\n".join(rows)), FileShape())
    assert [each.features for each in examples[-6:]] == [{"hp": 94.0}, {}, {}, {}, {}, {}]
    assert notes == ["column 'hp': 95 of 100 values are numbers; '?' (4), '-' (1) are read as missing"]
    examples, notes = noted(write("label,hp\n" + "\n".join([*rows, "1,?"])), FileShape())
    assert examples[0].features == {"hp=0": 1.0}, "94.06 percent"
    assert notes == []
    late = ["1,2"] * 1500 + ["1,late"] + ["1,"] * 3 + ["1,3"]
    examples, notes = noted(write("label,hp\n" + "\n".join(late)), FileShape())
    assert [each.features for each in examples[-5:]] == [{}, {}, {}, {}, {"hp": 3.0}]
    assert notes == ["column 'hp': 1,501 of 1,502 values are numbers; 'late' (1) is read as missing"]
    examples, notes = noted(write("label,hp\n" + "\n".join(late)), shape_of(categories=("hp",)))
    assert [each.features for each in examples[-5:]] == [{"hp=late": 1.0}, {}, {}, {}, {"hp=3": 1.0}]
    assert notes == []


def test_many_other_cells_are_summed_up(write: Write) -> None:
    """The three most frequent ones are named."""
    rows = [*["1,5"] * 2000, *(f"1,x{number}" for number in range(1500)), "1,?", "1,?"]
    _, notes = noted(write("label,a\n" + "\n".join(rows)), FileShape())
    assert notes[0].startswith("column 'a': 2,000 of 3,502 values are numbers; ")
    assert notes[0].endswith("are read as missing")
    assert "others (" in notes[0]


def test_a_column_that_is_empty_so_far_is_known_by_its_first_value(write: Write) -> None:
    """A number, or a text."""
    rows = [*["1,,"] * 1200, "1,late,8", "0,9,9"]
    examples = flat_examples(write("label,empty,number\n" + "\n".join(rows)))
    assert [example.features for example in examples[-2:]] == [
        {"empty=late": 1.0, "number": 8.0},
        {"empty=9": 1.0, "number": 9.0},
    ]


def test_numbers_may_be_named(write: Write) -> None:
    """Then a column of texts has the numbers among them, and true and false are 1 and 0, as in JSON."""
    examples, notes = noted(write("label,a\n1,x\n1,7\n1,True\n1,false\n"), shape_of(numbers=("a",)))
    assert [each.features for each in examples] == [{}, {"a": 7.0}, {"a": 1.0}, {"a": 0.0}]
    assert notes == ["column 'a': 3 of 4 values are numbers; 'x' (1) is read as missing"]


def test_numbers_in_categories_have_one_spelling(write: Write) -> None:
    """That of the same number in JSON; 007 is no number there."""
    cells = ["7.10", "7.1", "7.0", "7", "007", "1e3", "x", "True", "-0"]
    examples = flat_examples(write("label,a\n" + "".join(f"1,{cell}\n" for cell in cells)), shape_of(categories=("a",)))
    found = [next(iter(example.features)).removeprefix("a=") for example in examples]
    assert found == ["7.1", "7.1", "7", "7", "007", "1000", "x", "true", "0"]


def test_truths_are_one_value(write: Write, write_table: WriteTable) -> None:
    """However a text spells them, and in a format that has them as a type."""
    expected = [{"a=true": 1.0}] * 3 + [{"a=false": 1.0}] * 3
    cells = ["True", "TRUE", "true", "False", "FALSE", "false"]
    assert [
        each.features for each in flat_examples(write("label,a\n" + "".join(f"1,{cell}\n" for cell in cells)))
    ] == expected
    table = write_table({"label": [1] * 6, "a": [True] * 3 + [False] * 3})
    assert [each.features for each in flat_examples(table)] == expected


def test_quoted_cells_are_untouched(write: Write) -> None:
    """Spaces and line ends within quotes belong to the cell; those around a cell without quotes do not."""
    path = write(b'label,a,b\r\n1," x ",y \r\n1, "x\r\ny ","z "\r\n1, x ,"say ""x "" "\r\n')
    assert [example.features for example in flat_examples(path)] == [
        {"a= x ": 1.0, "b=y": 1.0},
        {"a=x\r\ny ": 1.0, "b=z ": 1.0},
        {"a=x": 1.0, 'b=say "x " ': 1.0},
    ]


@pytest.mark.parametrize(("first", "sign"), [("sep=;", ";"), ('"sep=;"', ";"), ("sep=,", ","), ("sep=\t", "\t")])
def test_the_first_line_may_name_the_separator(first: str, sign: str, write: Write) -> None:
    """As Excel writes it."""
    path = write(f"{first}\r\n" + "label,a,b\n1,2,x\n".replace(",", sign))
    assert flat_examples(path) == [Example(1.0, 1.0, None, {"a": 2.0, "b=x": 1.0})]


def test_row_numbers_are_no_features(write: Write, tmp_path: Path) -> None:
    """Those of pandas, in any format, unless they are named; a line says so."""
    note = "column '{0}' holds row numbers, and is no feature (--numbers {0} makes it one)"
    expected = [Example(1.0, 1.0, None, {"a": 2.0})]
    path = write("Unnamed: 0,__index_level_0__,label,a\n5,6,1,2\n")
    assert noted(path, FileShape()) == (expected, [note.format("Unnamed: 0"), note.format("__index_level_0__")])
    assert flat_examples(path, shape_of(numbers=("Unnamed: 0",)))[0].features == {"Unnamed: 0": 5.0, "a": 2.0}
    assert flat_examples(path, shape_of(id="Unnamed: 0"))[0].id == "5"
    path = write('{"__index_level_0__": 5, "label": 1, "a": 2}\n')
    assert noted(path, FileShape()) == (expected, [note.format("__index_level_0__")])
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"label": [1, 0], "a": [2, 3]}, index=pd.Index([7, 9], name="row")).iloc[:1]
    frame.to_parquet(tmp_path / "indexed")
    assert noted(tmp_path / "indexed", FileShape()) == (expected, [note.format("row")])
    frame.reset_index().to_parquet(tmp_path / "column")
    assert noted(tmp_path / "column", FileShape()) == ([expected[0]._replace(features={"row": 7.0, "a": 2.0})], [])


def test_features_lie_where_the_mapping_says(write: Write, write_table: WriteTable) -> None:
    """A column next to the payload may give the label away."""
    shape = shape_of(label="y", features="payload")
    expected = [Example(1.0, 1.0, None, {"a": 2.0})]
    assert flat_examples(write("y,leak,payload.a\n1,1,2\n"), shape) == expected
    assert flat_examples(write_table({"y": [1], "leak": [1], "payload.a": [2]}), shape) == expected
    assert flat_examples(write_table({"y": [1], "leak": [1], "payload": [{"a": 2}]}), shape) == expected
    assert flat_examples(write('{"y": 1, "leak": 1, "payload": {"a": 2}}'), shape) == expected
    with pytest.raises(InputFileError, match=r":2: expected a map as 'payload' \(--features"):
        flat_examples(write("y,leak\n1,1\n"), shape)


def test_a_table_may_hold_messages(write: Write, write_table: WriteTable) -> None:
    """With a map of features, or columns below it."""
    expected = [Example(1.0, 1.0, None, {"a": 2.0, "b": 1.0})]
    assert flat_examples(write_table({"label": [1], "features": [{"a": 2, "b": True}]})) == expected
    assert flat_examples(write("label,features.a,features.b,c\n1,2,1,9\n")) == expected


def test_a_role_may_lie_in_a_struct(write_table: WriteTable) -> None:
    """As in JSON."""
    path = write_table({"l": [{"y": 1, "z": 5}], "a": [2]})
    assert flat_examples(path, shape_of(label="l.y")) == [Example(1.0, 1.0, None, {"l": {"z": 5.0}, "": {"a": 2.0}})]
    assert flat_examples(path, shape_of(label="l.y", ignore=("l",)))[0].features == {"a": 2.0}


def test_roles_may_be_named(write: Write, write_table: WriteTable) -> None:
    """Another label, no weight, no id, categories that look like numbers, columns left out; alike in both formats."""
    chosen = shape_of(label="y", weight="", id="", categories=("zip",), ignore=("secret",))
    expected = [Example(2.0, 1.0, None, {"weight": 70.5, "id": 1.0, "zip=5": 1.0, "label": 0.0})]
    assert flat_examples(write("y,weight,id,zip,secret,label\n2,70.5,1,5,x,0\n"), chosen) == expected
    columns = {"y": [2], "weight": [70.5], "id": [1], "zip": [5], "secret": [b"x"], "label": [0]}
    assert flat_examples(write_table(columns), chosen) == expected
    assert flat_examples(write("a,b\n1,x\n"), shape_of(label="")) == [Example(None, 1.0, None, {"a": 1.0, "b=x": 1.0})]


def test_every_type_of_parquet(write_table: WriteTable) -> None:
    """Numbers of any type are numbers; text, truths, UUIDs, and what is named as such are categories."""
    uuid = "5b4902a6-9638-1be6-90b7-adaa21c63ccc"
    path = write_table(
        {
            "label": pa.array([True, False]),
            "int": pa.array([7, None], pa.uint16()),
            "half": pa.array([0.5, 2.0], pa.float16()),
            "single": pa.array([0.1, float("nan")], pa.float32()),
            "decimal": [Decimal("1.25"), None],
            "flag": [True, False],
            "nothing": pa.nulls(2),
            "large": pa.array(["a", None], pa.large_string()),
            "coded": pa.array(["b", "c"]).dictionary_encode(),
            "when": pa.array([date(2024, 1, 2), None]),
            "clock": pa.array([time(10, 30), None], pa.time64("ns")),
            "uuid": pa.array([UUID(uuid).bytes, None], pa.uuid()),
            "bytes": pa.array([b"x", None]),
            "code": pa.array([0.1, 7.0], pa.float32()),
            "list": pa.array([[0.5, None], None], pa.list_(pa.float64())),
        }
    )
    features: Any = {
        "": {
            "int": 7.0, "half": 0.5, "single": pytest.approx(0.1), "decimal": 1.25, "flag=true": 1.0,
            "large=a": 1.0, "coded=b": 1.0, "when=2024-01-02": 1.0, "clock=10:30:00": 1.0, "bytes=x": 1.0,
            "code=0.1": 1.0,
        },
        "list": {"0": 0.5},
    }  # fmt: skip
    expected = [
        Example(1.0, 1.0, uuid, features),
        Example(0.0, 1.0, None, {"half": 2.0, "flag=false": 1.0, "coded=c": 1.0, "code=7": 1.0}),
    ]
    assert flat_examples(path, shape_of(categories=("when", "clock", "bytes", "code"), id="uuid")) == expected
    parts: Any = flat_examples(path, shape_of(times=("when", "clock"), ignore=("bytes",)))[0].features
    assert set(parts["when"]) == {"hour=0", "weekday=tuesday", "month=1"}
    assert set(parts["clock"]) == {"hour=10"}
    assert f"uuid={uuid}" in parts[""]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([datetime(2024, 2, 29, 12, 30, tzinfo=UTC)], pa.timestamp("ns", "Europe/Rome")),
        pa.array([datetime(2024, 2, 29, 12, 30, tzinfo=UTC).replace(tzinfo=None)], pa.timestamp("s")),
        [1_709_209_800],
        ["2024-02-29T12:30:00Z"],
    ],
)
def test_a_column_of_parquet_may_be_the_time(column: Any, write_table: WriteTable) -> None:
    """A time of any unit and zone, a number or text; it is no feature."""
    path = write_table({"label": [1], "at": column, "a": [2]})
    assert flat_examples(path, shape_of(timestamp="at")) == [Example(1.0, 1.0, None, {"a": 2.0}, 1_709_209_800_000)]


def test_a_column_of_csv_may_be_the_time(write: Write) -> None:
    """A number or text, in the forms of the other formats; it is no feature."""
    path = write("label,at,a\n1,2024-02-29T12:30:00Z,2\n1,1709209800,2\n")
    assert {example.timestamp_ms for example in flat_examples(path, shape_of(timestamp="at"))} == {1_709_209_800_000}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2,3\n", ":1: expected a first row with the columns' names, found 1,2,3"),
        ("a,b\n1,2\n", (":1: expected a column 'label' (--label names another, --label '' says that there is "
         "none), found only 'a', 'b'")),
        ("label,a,a\n", ":1: expected each column's name once, found 'a' again"),
        (",label,a\n", (":1: expected a name for each column (pandas writes an index without one unless it is told "
         "index=False), found none for column 1 of 3")),
        ("label,a\n1,2\n1,2,3\n", ":3: expected 2 cells, as in the first row, found 3"),
        ("label,a\nyes,2\n", (":2: expected a number, true or false as 'label' (1 for yes, 0 for no; classes are 0, "
         '1, 2 ...; --label-map numbers words, as in no=0,yes=1), found "yes"')),
        ("label,a\n1,inf\n", ":2: expected a number below 2^60 (1.15e18) in size as 'a', found inf"),
        ("label,a\n1,1e39\n", ":2: expected a number below 2^60 (1.15e18) in size as 'a', found 1e+39"),
        ("label,weight\n1,-2\n", ":2: expected a number of at least 0 as 'weight', found -2"),
        ("label,weight\n1,heavy\n", ":2: expected a number of at least 0 as 'weight', found heavy"),
        ('label,a\n\n1,"x\n', ":3: expected CSV, found: unexpected end of data"),
        ('label,a\n1,"x"y\n', ":2: expected CSV, found: ',' expected after '\"'"),
        ("label,city,city=Rome\n1,Rome,2\n", ":2: expected each field once, found 'city=Rome' again"),
    ],
)  # fmt: skip
def test_what_csv_can_t_be_is_refused_with_its_line(content: str, message: str, write: Write) -> None:
    """The error says path, line, expected and found."""
    path = write(content)
    with pytest.raises(InputFileError) as error:
        list(read_examples(path))
    assert str(error.value) == f"{path}{message}"


@pytest.mark.parametrize("role", ["label", "weight", "id", "timestamp"])
def test_a_column_that_is_named_must_be_there(role: str, write: Write, write_table: WriteTable) -> None:
    """Whatever it is named for, in both formats."""
    for path in (write("label,a\n1,2\n"), write_table({"label": [1], "a": [2]})):
        with pytest.raises(InputFileError, match=r"expected a column 'c'( \(--label .*\))?, found only 'a', 'label'"):
            list(read_examples(path, shape_of(**{role: "c"})))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [1], "a": [b"x"]}, ("row 1: expected a number, a text or a boolean (bytes are for --id, "
         "categories, or ignore) as 'a', found b'x'")),
        ({"label": [1], "a": [date(2024, 1, 1)]}, ("row 1: expected a number, a text or a boolean (times are for "
         "--times, timestamp, categories, or ignore) as 'a', found 2024-01-01")),
        ({"label": [1, 1], "a": [1.0, 1e39]}, ("row 2: expected a number below 2^60 (1.15e18) in size as 'a', found "
         "1e+39")),
        ({"label": ["x"], "a": [1]}, ("row 1: expected a number, true or false as 'label' (1 for yes, 0 for no; "
         'classes are 0, 1, 2 ...; --label-map numbers words, as in no=0,yes=1), found "x"')),
        ({"a": [1]}, ("expected a column 'label' (--label names another, --label '' says that there is none), found "
         "only 'a'")),
    ],
)  # fmt: skip
def test_what_parquet_can_t_be_is_refused_with_its_row(
    columns: dict[str, Any], message: str, write_table: WriteTable
) -> None:
    """The error says path, row, expected and found."""
    path = write_table(columns)
    with pytest.raises(InputFileError) as error:
        list(read_examples(path))
    assert str(error.value) in {f"{path}: {message}", f"{path}, {message}"}


def test_bytes_that_are_no_text_are_told(write_table: WriteTable) -> None:
    """With the column, its type, and the options that help."""
    path = write_table({"label": [1], "a": [b"\xff"]})
    with pytest.raises(
        InputFileError, match=r"row 1: expected a category in UTF-8 \(--ignore .*\) as 'a', found b'\\xff'$"
    ):
        flat_examples(path, shape_of(categories=("a",)))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            pa.array([1, 1 << 62], pa.timestamp("us")),
            "expected values of timestamp[us] in column 'c' that Python can hold",
        ),
        (
            pa.Array.from_buffers(
                pa.string(), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 1, 2)), pa.py_buffer(b"a\xff")]
            ),
            "expected text in UTF-8 in column 'c', found string that is not",
        ),
        (
            pa.array([[("a", 1), ("a", 2)], None], pa.map_(pa.string(), pa.int64())),
            "expected values of map<string, int64",
        ),
    ],
)
def test_a_cell_that_python_can_t_hold_is_told(column: Any, message: str, write_table: WriteTable) -> None:
    """A time after the year 9999, text that is no UTF-8, a key twice; the option that leaves the column out helps."""
    path = write_table({"label": [1, 0], "c": column})
    with pytest.raises(InputFileError) as error:
        list(read_examples(path))
    assert str(error.value).startswith(f"{path}, after row 0: {message}")
    assert "--ignore c" in str(error.value)
    assert len(list(read_examples(path, shape_of(ignore=("c",))))) == 2


def test_a_damaged_parquet_file_is_refused(write: Write, write_table: WriteTable) -> None:
    """Cut off, or with other bytes in its middle."""
    whole = write_table({"label": [1] * 1000, "a": [f"text {number}" for number in range(1000)]}).read_bytes()
    for content in (whole[:-9], whole[:20] + b"\xff" * 40 + whole[60:]):
        with pytest.raises(InputFileError, match=r"expected a whole Parquet file, found a damaged one after row \d+$"):
            list(read_examples(write(content)))


def test_a_gzipped_parquet_file_is_named(write: Write, write_table: WriteTable) -> None:
    """It was called damaged."""
    path = write(gzip.compress(write_table({"label": [1]}).read_bytes()))
    with pytest.raises(InputFileError, match=r": expected Parquet that is not gzipped, .*, found a gzipped file$"):
        list(read_examples(path))


def test_parquet_is_not_read_from_a_pipe(write_table: WriteTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end must be read first."""
    content = write_table({"label": [1]}).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(InputFileError, match="standard input: expected a format that is read from its start, found P"):
        list(read_examples(input_stream.STDIN))


def test_without_pyarrow_the_extra_is_named(write_table: WriteTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV needs nothing, and Parquet says what to install."""
    path = write_table({"label": [1]})
    found = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(name, name=name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match=r"pip install 'stream-apple\[parquet\]'"):
        list(read_examples(path))
    path.write_text(TEXT)
    assert flat_examples(path) == EXAMPLES


def test_a_row_group_is_not_read_at_once(write_table: WriteTable) -> None:
    """Memory is bounded by a buffer and a batch of rows, not by the row group that a writer has chosen."""
    rows = 400_000
    column = pa.array([number * 0.37 for number in range(rows)])
    columns = {"label": column, **{f"c{number}": column for number in range(8)}}
    path = write_table(columns, row_group_size=rows, use_dictionary=False, compression="none", data_page_size=1 << 16)
    size = path.stat().st_size
    del columns, column
    before = pa.total_allocated_bytes()
    examples: Iterator[Example] = read_examples(path)
    most = 0
    for _ in range(5000):
        next(examples)
        most = max(most, pa.total_allocated_bytes() - before)
    assert size > 25 << 20
    assert 0 < most < size / 2
    examples.close()  # type: ignore[attr-defined]  # a generator
