"""Files that are wide, broken or forged: time linear in what they hold, memory bounded by one example."""

import gzip
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.file_formats import flat_examples, shape_of

from stream_apple.core.batch import Limits
from stream_apple.errors import InputFileError
from stream_apple.files import csv_text, read_examples
from stream_apple.offline.dataset import read_batch
from stream_apple.records.spelling import MOST_PARTS

_READ = (
    "import sys\n"
    "from pathlib import Path\n"
    "from stream_apple.errors import InputFileError\n"
    "from stream_apple.files import read_examples\n"
    # Not ru_maxrss, which a process inherits from the one that has started it.
    "def peak():\n"
    "    return int(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])\n"
    "before = peak()\n"
    "try:\n"
    "    print(sum(1 for _ in read_examples(Path(sys.argv[1]))))\n"
    "except InputFileError as error:\n"
    "    print(error)\n"
    "print(peak() - before)\n"
)
_MIB = 1 << 20


def read_apart(path: Path) -> tuple[str, int]:
    """What reading the file in a process of its own comes to: the number of examples or the error, and its peak, bytes.

    The processor's time is bounded, so that what is not linear fails, however busy the machine is.
    """
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
    )
    *said, peak = done.stdout.splitlines()
    return "\n".join(said), 1024 * int(peak)


def test_a_wide_table_takes_time_by_its_cells(tmp_path: Path) -> None:
    """100,000 columns, of which each row has few: names are looked up, not compared with each other."""
    count = 100_000
    path = tmp_path / "wide.csv"
    header = ",".join(f"c{number}" for number in range(count))
    rows = ["".join(["1", *(",5" if number % count == row else "," for number in range(count))]) for row in range(4)]
    path.write_text(f"label,{header}\n" + "\n".join(rows) + "\n")
    said, peak = read_apart(path)
    assert said == "4"
    assert peak < 170 * _MIB
    assert [example.features for example in flat_examples(path)] == [{f"c{row}": 5.0} for row in range(4)]


def test_a_row_with_too_many_features_is_refused_as_by_a_worker(tmp_path: Path) -> None:
    """In the words of the dead letter, and with the number of the example."""
    path = tmp_path / "wide.csv"
    names = ",".join(f"c{number}" for number in range(70_000))
    path.write_text(f"label,{names}\n1{',1' * 70_000}\n")
    limits = Limits(65_535, 1 << 30, 1e9, -1e9, 1e9, binary=False)
    with pytest.raises(InputFileError, match=r"wide.csv, example 1: expected at most 65535 features, found more, in "):
        read_batch([path], limits)


def test_the_sample_of_a_table_is_kept_as_text(tmp_path: Path) -> None:
    """A thousand rows of five hundred cells tell the columns' kinds: as cells they would take 30 MB."""
    rows, columns = 1000, 500
    path = tmp_path / "tall.csv"
    with path.open("w") as file:
        file.write("label," + ",".join(f"c{number}" for number in range(columns)) + "\n")
        for row in range(rows):
            file.write(f"{row % 2}" + "".join(f",{row}.{number}" for number in range(columns)) + "\n")
    said, peak = read_apart(path)
    assert said == str(rows)
    assert peak < 20 * _MIB


def one_text(size: int, rows: int) -> pa.DictionaryArray:
    """A column that has the same text in each row."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * size]))


@pytest.mark.parametrize("kind", ["dictionary", "prefixes"])
def test_a_small_parquet_file_may_hold_a_long_text_often(kind: str, tmp_path: Path) -> None:
    """A kilobyte of file with hundreds of megabytes of cells: a text is there once, or rows are few at once."""
    path, rows = tmp_path / "long.parquet", 400
    column = one_text(2_900_000, rows)
    options: dict[str, Any] = {}
    if kind == "prefixes":
        column = one_text(_MIB, rows).dictionary_decode()
        options = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    parquet.write_table(pa.table({"label": [1.0] * rows, "text": column}), path, compression="zstd", **options)
    assert path.stat().st_size < 100_000
    said, peak = read_apart(path)
    assert said == str(rows)
    assert peak < 300 * _MIB


def test_a_parquet_column_that_is_packed_too_tightly_is_refused(tmp_path: Path) -> None:
    """A page is unpacked whole; the file says how large its columns become before one is read."""
    path = tmp_path / "bomb.parquet"
    text = one_text(_MIB, 300).dictionary_decode()
    table = pa.table({"label": [1.0] * 300, "text": text})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False, data_page_size=1 << 30)
    assert path.stat().st_size < 100_000
    said, peak = read_apart(path)
    assert "expected a column of at most 256 MiB in a row group, or compressed at most 1000-fold, found 300" in said
    assert peak < 100 * _MIB


def test_columns_that_are_ignored_are_not_read(tmp_path: Path) -> None:
    """Whatever is in them."""
    path = tmp_path / "lists.parquet"
    parquet.write_table(pa.table({"label": [1.0, 0.0], "a": [2.0, 3.0], "list": [[1] * 10, []]}), path)
    before = path.read_bytes()
    shape = shape_of(ignore=("list",))
    expected = [{"a": 2.0}, {"a": 3.0}]
    assert [example.features for example in flat_examples(path, shape)] == expected
    # The column's only page, overwritten: nobody has looked at it.
    start = parquet.ParquetFile(path).metadata.row_group(0).column(2).data_page_offset
    path.write_bytes(before[:start] + b"\xff" * 20 + before[start + 20 :])
    assert [example.features for example in flat_examples(path, shape)] == expected


_MANY = 6_000_000


@pytest.mark.parametrize(
    ("head", "part", "count", "what"),
    [
        pytest.param(b'{"features": {}, "x": [0', b",[]", _MANY, "at most 65,536 signs { and [", id="JSON"),
        pytest.param(b"1 | a", b" bc", _MANY, f"at most {MOST_PARTS:,} words in an example", id="Vowpal Wabbit"),
        pytest.param(b"1", b" 1:1", _MANY, f"at most {MOST_PARTS:,} words in an example", id="svmlight"),
        pytest.param(b"label,a\n", b",", 4 * _MANY, f"at most {MOST_PARTS:,} cells in an example", id="CSV"),
        pytest.param(
            b"label,a\n", b'"\n",', _MANY, f"at most {MOST_PARTS:,} cells in an example", id="CSV, on many lines"
        ),
        pytest.param(
            b"\x82\xa8features\x80\xa1x\xdc\x01\x2c",
            b"\xdc\xff\xff" + b"\x90" * 65_535,
            300,
            f"at most {MOST_PARTS:,} values in an example",
            id="msgpack",
        ),
    ],
)
def test_a_line_of_millions_of_parts_is_refused_before_it_is_taken_apart(
    head: bytes, part: bytes, count: int, what: str, tmp_path: Path
) -> None:
    """It is packed to some kilobytes; each part would take ten to sixty times its bytes."""
    path = tmp_path / "crowd.gz"
    path.write_bytes(gzip.compress(head + part * count, 1, mtime=0))
    said, peak = read_apart(path)
    assert f"expected {what}, found " in said
    assert peak < 5 * count * len(part) + 150 * _MIB


def test_a_line_without_end_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    """Of a gzipped file that would become a gigabyte."""
    path = tmp_path / "endless.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"features": {"a": "')
        for _ in range(256):
            file.write(b"x" * (1 << 20))
    said, peak = read_apart(path)
    assert said.endswith(":1: expected a line of at most 67108864 bytes, found a longer one")
    assert peak < 400 * _MIB


def test_a_quote_that_is_left_open_is_named(tmp_path: Path) -> None:
    """With the line on which its row begins, however far the reader has gone to look for its end."""
    path = tmp_path / "open.csv"
    path.write_text('label,a\n1,x\n1,"y\n' + "1,z\n" * 100_000)
    with pytest.raises(InputFileError, match=r"field larger than .*; the row begins on line 3: is a quote left open "):
        list(read_examples(path))


def test_many_blank_lines_take_time_by_their_number(tmp_path: Path) -> None:
    """Two million of them stand before the first example: what has been read is not copied for each."""
    path = tmp_path / "blank"
    path.write_bytes(b"\n" * 2_000_000 + b"1 1:2\n")
    assert read_apart(path)[0] == "1"


def test_keys_of_a_map_are_compared_once(tmp_path: Path) -> None:
    """The last of 200,000 stands twice: found in one walk."""
    path = tmp_path / "keys"
    names = b"".join(msgpack.packb(f"k{number}") + b"\x01" for number in [*range(200_000), 199_999])
    path.write_bytes(b"\x81\xa8features\xdf" + (200_001).to_bytes(4) + names)
    assert "expected each key once in a map, found 'k199999' again" in read_apart(path)[0]


def test_a_list_of_msgpack_may_be_long_but_not_too_long(tmp_path: Path) -> None:
    """What is read over has a bound as well; each message begins anew."""
    path = tmp_path / "lists"
    good = msgpack.packb({"features": {"a": 1.0}, "x": [0] * 600_000})
    path.write_bytes(good * 3)
    assert len(list(read_examples(path))) == 3
    path.write_bytes(msgpack.packb({"features": {}, "x": [0] * (MOST_PARTS + 1)}))
    with pytest.raises(InputFileError, match=r"exceeds max_array_len"):
        list(read_examples(path))


def test_wide_examples_are_decoded_a_few_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk ends by bytes as well as by number, and is the same batch."""
    path = tmp_path / "some.svm"
    path.write_text("".join(f"{row % 2} " + " ".join(f"{row + n}:1" for n in range(1, 9)) + "\n" for row in range(50)))
    limits = Limits(100, 1 << 20, 1e9, -1e9, 1e9, binary=False)
    whole = read_batch([path], limits)
    monkeypatch.setattr("stream_apple.offline.dataset.CHUNK_BYTES", 100)
    for name, column in read_batch([path], limits)._asdict().items():
        assert column.tolist() == getattr(whole, name).tolist()


def test_more_rows_than_are_kept_in_memory_are_read_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From disk as from memory, to the last cell and line number."""
    path = tmp_path / "table"
    path.write_text("# c\n\nlabel,a,b\r\n" + '1,"x\n\ry",2\n\n0,é,NA\n' * 300 + "1,2\n")
    found = []
    for limit in (16 << 20, 1):
        monkeypatch.setattr(csv_text, "_KEPT_IN_MEMORY", limit)
        examples = read_examples(path)
        found.append([next(examples) for _ in range(600)])
        with pytest.raises(InputFileError, match=r":1204: expected 3 cells, as in the first row, found 2"):
            next(examples)
    assert found[0] == found[1]
    assert found[0][0].features == {"": {"a=x\n\ry": 1.0, "b": 2.0}}
    assert found[0][1].features == {"": {"a=é": 1.0}}
