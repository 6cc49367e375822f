"""CSV and Parquet: what columns become, their roles, what is missing, bounded memory, and errors that say where."""

import builtins
import gzip
import io
import struct
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from support.file_formats import detect

from stream_apple.errors import ConfigurationError, InputFileError
from stream_apple.files import ColumnRoles, input_stream, read_examples
from stream_apple.files.detection import FileFormat
from stream_apple.records.mapping import InputMapping
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


def roles(*, categories: str = "", ignored: str = "", **named: str) -> ColumnRoles:
    """Columns' names, space between them, and a column for each role."""
    return ColumnRoles(named, frozenset(categories.split()), frozenset(ignored.split()))


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
    assert list(read_examples(path)) == EXAMPLES


def test_csv_comes_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input is read like a file."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert list(read_examples(input_stream.STDIN)) == EXAMPLES


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
    assert list(read_examples(path)) == EXAMPLES


def test_quoted_cells_hold_anything(write: Write) -> None:
    """Commas, quotes and line ends; the name of the feature is the text as it stands."""
    path = write('label,"a ""b"" c",city\n1,2,"São, ""Paulo""\nBrasil"\n0,3,x\n')
    assert [example.features for example in read_examples(path)] == [
        {'a "b" c': 2.0, 'city=São, "Paulo"\nBrasil': 1.0},
        {'a "b" c': 3.0, "city=x": 1.0},
    ]


@pytest.mark.parametrize("marker", ["NA", "NaN", "nan", "null", "NULL", "None", "N/A"])
def test_markers_are_missing_among_numbers_only(marker: str, write: Write) -> None:
    """A column of countries may have one that is called NA."""
    path = write(f"label,age,country\n1,{marker},{marker}\n{marker},4,DE\n")
    assert list(read_examples(path)) == [
        Example(1.0, 1.0, None, {f"country={marker}": 1.0}),
        Example(None, 1.0, None, {"age": 4.0, "country=DE": 1.0}),
    ]


def test_a_column_is_what_its_first_thousand_rows_are(write: Write) -> None:
    """Numbers only if all of them are; one that is empty so far is known by its first value."""
    rows = ["1,,A1", *["1,,7"] * 1200, "1,late,8", "0,9,9"]
    examples = list(read_examples(write("label,empty,code\n" + "\n".join(rows))))
    assert [example.features for example in (examples[0], examples[1], *examples[-2:])] == [
        {"code=A1": 1.0},
        {"code=7": 1.0},
        {"empty=late": 1.0, "code=8": 1.0},
        {"empty=9": 1.0, "code=9": 1.0},
    ]
    with pytest.raises(InputFileError, match=r":1203: expected a finite number as 'a', .*=a makes it.*, found 'x'"):
        list(read_examples(write("label,a\n" + "1,2\n" * 1201 + "1,x\n")))


def test_roles_may_be_named(write: Write, write_table: WriteTable) -> None:
    """Another label, no weight, no id, categories that look like numbers, columns left out; alike in both formats."""
    chosen = roles(label="y", weight="", id="", categories="zip", ignored="secret")
    expected = [Example(2.0, 1.0, None, {"weight": 70.5, "id": 1.0, "zip=5": 1.0, "label": 0.0})]
    assert list(read_examples(write("y,weight,id,zip,secret,label\n2,70.5,1,5,x,0\n"), None, chosen)) == expected
    columns = {"y": [2], "weight": [70.5], "id": [1], "zip": [5], "secret": [b"x"], "label": [0]}
    assert list(read_examples(write_table(columns), None, chosen)) == expected
    unlabelled = roles(label="")
    assert list(read_examples(write("a,b\n1,x\n"), None, unlabelled)) == [
        Example(None, 1.0, None, {"a": 1.0, "b=x": 1.0})
    ]


def test_every_type_of_parquet(write_table: WriteTable) -> None:
    """Integers, floats, decimals and bools are numbers, text of any kind is a category."""
    path = write_table(
        {
            "label": pa.array([True, False]),
            "int": pa.array([7, None], pa.uint16()),
            "half": pa.array([0.5, 2.0], pa.float32()),
            "decimal": [Decimal("1.25"), None],
            "flag": [True, False],
            "nothing": pa.nulls(2),
            "large": pa.array(["a", None], pa.large_string()),
            "coded": pa.array(["b", "c"]).dictionary_encode(),
            "when": pa.array([date(2024, 1, 2), None]),
        }
    )
    assert list(read_examples(path, None, roles(categories="when"))) == [
        Example(
            1.0,
            1.0,
            None,
            {
                "int": 7.0, "half": 0.5, "decimal": 1.25, "flag": 1.0, "large=a": 1.0, "coded=b": 1.0,
                "when=2024-01-02": 1.0,
            },
        ),
        Example(0.0, 1.0, None, {"half": 2.0, "flag": 0.0, "coded=c": 1.0}),
    ]  # fmt: skip


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
    assert list(read_examples(path, "at")) == [Example(1.0, 1.0, None, {"a": 2.0}, 1_709_209_800_000)]


def test_a_column_of_csv_may_be_the_time(write: Write) -> None:
    """A number or text, in the forms of the other formats; it is no feature."""
    path = write("label,at,a\n1,2024-02-29T12:30:00Z,2\n1,1709209800,2\n")
    assert {example.timestamp_ms for example in read_examples(path, "at")} == {1_709_209_800_000}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2,3\n", ":1: expected a first row with the columns' names, found 1,2,3"),
        ("a,b\n1,2\n", (":1: expected a column 'label' (--column label=NAME names another, --column label= says that "
         "there is none), found only 'a', 'b'")),
        ("label,a,a\n", ":1: expected each column's name once, found 'a' again"),
        (",label,a\n", (":1: expected a name for each column (pandas writes an index without one unless it is told "
         "index=False), found none for column 1 of 3")),
        ("label,a\n1,2\n1,2,3\n", ":3: expected 2 cells, as in the first row, found 3"),
        ("label,a\nyes,2\n", (":2: expected a finite number as 'label', or true or false (1 for yes, 0 for no; "
         "classes are 0, 1, 2 ... and need --loss softmax --classes; evaluate --input label_map=no=0,yes=1 numbers "
         "words), found 'yes'")),
        ("label,a\n1,inf\n", (":2: expected a finite number as 'a', which holds numbers so far (--column category=a "
         "makes it categories), found 'inf'")),
        ("label,a\n1,1e39\n", ":2: expected a number below 2^60 in size as value of feature 'a', found 1e+39"),
        ("label,weight\n1,-2\n", ":2: expected a weight of at least 0, found -2.0"),
        ('label,a\n\n1,"x\n', ":3: expected CSV, found: unexpected end of data"),
        ('label,a\n1,"x"y\n', ":2: expected CSV, found: ',' expected after '\"'"),
        ("label,city,city=Rome\n1,Rome,2\n", (":2: expected each feature once, found a text that makes the name of "
         'another in {"city": "Rome", "city=Rome": 2.0}')),
    ],
)  # fmt: skip
def test_what_csv_can_t_be_is_refused_with_its_line(content: str, message: str, write: Write) -> None:
    """The error says path, line, expected and found."""
    path = write(content)
    with pytest.raises(InputFileError) as error:
        list(read_examples(path))
    assert str(error.value) == f"{path}{message}"


@pytest.mark.parametrize(
    ("chosen", "timestamp_field", "name"),
    [
        (roles(label="y"), None, "y"),
        (roles(weight="w"), None, "w"),
        (roles(categories="c"), None, "c"),
        (roles(ignored="i"), None, "i"),
        (ColumnRoles(), "at", "at"),
    ],
)
def test_a_column_that_is_named_must_be_there(
    chosen: ColumnRoles, timestamp_field: str | None, name: str, write: Write, write_table: WriteTable
) -> None:
    """Whatever it is named for, in both formats."""
    for path in (write("label,a\n1,2\n"), write_table({"label": [1], "a": [2]})):
        with pytest.raises(InputFileError, match=rf"expected a column '{name}', found only 'label', 'a'"):
            list(read_examples(path, timestamp_field, chosen))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [1], "a": [[1]]}, ("expected numbers, bools or text in column 'a' (--column ignore=a leaves it "
         "out, --input 'features=*' reads lists and maps), "
         "found list<element: int64>")),
        ({"label": [1], "a": [b"x"]}, ("expected numbers, bools or text in column 'a' (--column ignore=a leaves it "
         "out), "
         "found binary")),
        ({"label": [1, 1], "a": [1.0, 1e39]}, ("row 2: expected a number below 2^60 in size as value of feature 'a', "
         "found 1e+39")),
        ({"label": ["x"], "a": [1]}, ("row 1: expected a finite number as label (1 for yes, 0 for no; classes are 0, "
         '1, 2 ... and need --loss softmax --classes; evaluate --input label_map=no=0,yes=1 numbers words), '
         'found "x"')),
        ({"a": [1]}, ("expected a column 'label' (--column label=NAME names another, --column label= says that there "
         "is "
         "none), found only 'a'")),
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


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.array([1, 1 << 62], pa.timestamp("us")), "date value out of range"),
        (
            pa.Array.from_buffers(
                pa.string(), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 1, 2)), pa.py_buffer(b"a\xff")]
            ),
            "'utf-8' codec can't decode byte 0xff",
        ),
        (pa.array([[("a", 1), ("a", 2)], None], pa.map_(pa.string(), pa.int64())), "duplicate key was 'a'"),
    ],
)
def test_a_cell_that_python_can_t_hold_is_told(column: Any, why: str, write_table: WriteTable) -> None:
    """A time after the year 9999, text that is no UTF-8, a key twice: the first two ended in a traceback."""
    path = write_table({"label": [1, 0], "c": column})
    with pytest.raises(
        InputFileError, match=f"after row 0: expected cells in column 'c' .* to be read, found: .*{why}"
    ):
        list(read_examples(path, None, ColumnRoles(mapping=InputMapping(features="*"))))


def test_a_damaged_parquet_file_is_refused(write: Write, write_table: WriteTable) -> None:
    """Cut off, or with other bytes in its middle."""
    whole = write_table({"label": [1] * 1000, "a": [f"text {number}" for number in range(1000)]}).read_bytes()
    for content in (whole[:-9], whole[:20] + b"\xff" * 40 + whole[60:]):
        with pytest.raises(InputFileError, match="expected a whole Parquet file, found after row "):
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


def test_roles_need_columns(write: Write) -> None:
    """Other formats have none."""
    with pytest.raises(InputFileError, match="expected CSV or Parquet, which have columns, found JSON lines"):
        list(read_examples(write('{"features": {}}'), None, roles(label="y")))


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
    assert list(read_examples(path)) == EXAMPLES


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
