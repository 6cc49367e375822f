"""A path -> examples: formats told apart, gzip, standard input, and errors that say where."""

import bz2
import gzip
import io
import lzma
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import msgpack
import pytest
import zstandard
from support.file_formats import detect, shape_of

from stream_apple.errors import InputFileError
from stream_apple.files import input_stream, read_examples
from stream_apple.files.detection import FileFormat
from stream_apple.records.message.example import Example, encode_example

Write = Callable[[bytes], Path]

ONE = Example(1.0, 1.0, None, {"1": 2.0})
IN_NAMESPACE = Example(1.0, 1.0, None, {"": {"1": 2.0}})


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Put bytes into a file whose name says nothing."""

    def write(content: bytes) -> Path:
        path = tmp_path / "examples"
        path.write_bytes(content)
        return path

    return write


HEADERS = [
    b"label|x,a,b\n1,2,3\n",
    b"label,group of|user\n1,2\n",
    b"label;a|b\n1;2\n",
    b'"a|b",label\n2,1\n',
    b"a,b|c d,label\n1,2,3\n",
    b"user|age,home town,label\n1,2,3\n",
    b"full name,age|years,home town\na|b,1,c\n",
]
NO_HEADERS = [
    b"1 a,b|f x\n",
    b"'a,b|f x\n",
    b"|a,b c\n",
    b"1 2 t|f x,y;z\n",
    b"-1|a,b\n",
    b"t|f x,y\n",
    b"u,7|f x y\nu,8|f x\n",
    b"u,7|f x y",
]
"""Of CSV: what is before the bar is a label or a tag, or there are features behind it."""

CONTENTS = [
    (b"1 1:2\n", FileFormat.SVMLIGHT, ONE),
    (b"1 1:2", FileFormat.SVMLIGHT, ONE),
    (b"\n \n# a | comment {\n+1 1:2 # a | bar\r\n", FileFormat.SVMLIGHT, ONE),
    (b"\xef\xbb\xbf1 1:2\n", FileFormat.SVMLIGHT, ONE),
    (b"1 | 1:2\n", FileFormat.VOWPAL_WABBIT, IN_NAMESPACE),
    (b"\n1 | 1:2\r\n\n", FileFormat.VOWPAL_WABBIT, IN_NAMESPACE),
    (b'{"label": 1, "features": {"1": 2}}\n', FileFormat.JSON_LINES, ONE),
    (b'\n  {"label": 1, "features": {"1": 2}}', FileFormat.JSON_LINES, ONE),
    (encode_example(ONE), FileFormat.MSGPACK, ONE),
    (b"\xde\x00\x02" + encode_example(ONE)[1:], FileFormat.MSGPACK, ONE),
    (b"\xdf\x00\x00\x00\x02" + encode_example(ONE)[1:], FileFormat.MSGPACK, ONE),
]


@pytest.mark.parametrize(("content", "found", "example"), CONTENTS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_content_alone_tells_the_format(
    content: bytes, found: FileFormat, example: Example, pack: Callable[[bytes], bytes], write: Write
) -> None:
    """Plain or gzipped, with comments, blank lines, other line ends or a byte order mark before it."""
    path = write(pack(content))
    assert detect(path) is found
    assert list(read_examples(path)) == [example]


@pytest.mark.parametrize("content", [*HEADERS, *NO_HEADERS])
def test_a_column_s_name_may_have_a_bar(content: bytes, write: Write) -> None:
    """Not every line with a bar and commas is Vowpal Wabbit's, nor CSV."""
    expected = FileFormat.CSV if content in HEADERS else FileFormat.VOWPAL_WABBIT
    assert detect(write(content)) is expected


def test_a_tag_without_a_quote_may_have_a_comma(write: Write) -> None:
    """The lines that were read to tell the format are examples, too."""
    assert [example.id for example in read_examples(write(b"u,7|f x y\nu,8|f x\n"))] == ["u,7", "u,8"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# nothing\n", gzip.compress(b"", mtime=0)])
def test_a_file_may_hold_no_example(content: bytes, write: Write) -> None:
    """Then there is no format, and nothing to read."""
    path = write(content)
    assert detect(path) is None
    assert list(read_examples(path)) == []


@pytest.mark.parametrize("content", [b'\0\0\0\0\x07{"label": 1, "features": {}}', b"\0\0\0\0\x07a|b,c\t\n"])
def test_a_frame_for_a_schema_registry_is_named(content: bytes, write: Write) -> None:
    """What it holds may look like any format."""
    with pytest.raises(InputFileError, match=r"found Confluent's framing: a zero byte, then the schema id 7$"):
        list(read_examples(write(content)))


@pytest.mark.parametrize(
    ("content", "packing"),
    [
        (zstandard.compress(b"1 |f a,b\n" * 9), "zstd"),
        (bz2.compress(b"1 |f a,b\n" * 9), "bzip2"),
        (lzma.compress(b"1 |f a,b\n" * 9), "xz"),
        (b"PK\x03\x04|,", "zip"),
    ],
)
def test_other_packings_are_named(content: bytes, packing: str, write: Write) -> None:
    """Their bytes may have the bars and commas of a format."""
    with pytest.raises(InputFileError, match=rf"expected a file that is gzipped or not packed .*, found {packing}$"):
        list(read_examples(write(content + b"|,\n")))


@pytest.mark.parametrize("content", [b"one word\n", b"<xml/>", b"\x00\x01\x02", b"PAR2"])
def test_a_foreign_format_is_refused(content: bytes, write: Write) -> None:
    """The message names the formats that can be read, and shows the line that is none of them."""
    with pytest.raises(InputFileError, match=r"examples: expected a first example in one of svmlight, .*, found "):
        list(read_examples(write(content)))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"1 1:2\n\n# c\n1 x\n", 4),
        (b"1 |f a\n1 |f b:c\n", 2),
        (b'{"features": {}}\n\n{"features": 1}\n', 3),
        (b"1 |f a\n1 |f \xff\n", 2),
    ],
)
def test_an_error_in_text_names_the_line(content: bytes, line: int, write: Write) -> None:
    """What stands before the line is read; the error says path, line, expected and found."""
    path = write(content)
    examples = read_examples(path)
    next(examples)
    with pytest.raises(InputFileError, match=rf"^{path}:{line}: expected .*, found "):
        next(examples)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'[{"label": 1, "features": {"a": 1}}]\n', "a list"),
        (b' [\n  {"label": 1, "features": {"a": 1}}\n]\n', "a list"),
        (b'{\n  "label": 1,\n  "features": {"a": 1}\n}\n', "an object of several lines"),
    ],
)
def test_json_that_is_no_lines(content: bytes, found: str, write: Write) -> None:
    """Is told by its first line, and what makes lines of it."""
    with pytest.raises(InputFileError, match=rf": expected JSON lines, an object a line \(`jq .*`.*\), found {found}$"):
        next(read_examples(write(content)))


GOOD = encode_example(ONE)


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (GOOD[:-1], f"expected a whole message, found only {len(GOOD) - 1} bytes of one"),
        (b"\xc1", "expected msgpack, found a byte that begins no value"),
        (b"\n", "expected a map or the end, found bytes left over behind message 2: 10"),
        (b"\x91" * 5000, "expected msgpack, found values nested too deeply"),
        (b"\xc7\x0c\xff\0\0\0\0" + b"\x80" * 8, "expected msgpack, found a time that is no date of Python's"),
        (
            msgpack.packb({"label": 1}),
            "expected a map as 'features' (--features \"*\" takes all fields that have no role), found none",
        ),
        (b"\x81\xa1\xff\x01", "expected msgpack, found text that is not UTF-8"),
        (b"\x82\xa1a\x01\xa1a\x01", "expected each key once in a map, found 'a' again"),
        (b"\x81\x01\x01", "expected msgpack, found a key that is not text"),
    ],
)
def test_an_error_in_msgpack_names_the_message_and_its_byte(tail: bytes, message: str, write: Write) -> None:
    """A cut-off end is an error as well: nothing that is there is passed over."""
    path = write(GOOD * 2 + tail)
    examples = read_examples(path)
    assert [next(examples), next(examples)] == [ONE, ONE]
    with pytest.raises(InputFileError) as error:
        next(examples)
    assert str(error.value).startswith(f"{path}: message at byte {2 * len(GOOD)}: {message}")


def test_msgpack_timestamps_are_read(write: Write) -> None:
    """The timestamp type of msgpack is a time; so is a number."""
    records = [{"features": {}, "at": msgpack.Timestamp(1, 5_000_000)}, {"features": {}, "at": 1_700_000_000}]
    path = write(b"".join(map(msgpack.packb, records)))
    assert [example.timestamp_ms for example in read_examples(path, shape_of(timestamp="at"))] == [
        1005,
        1_700_000_000_000,
    ]


@pytest.mark.parametrize("content", [b"1 1:2\n", b"1 |f a\n"])
def test_a_timestamp_field_needs_a_format_with_fields(content: bytes, write: Write) -> None:
    """In svmlight and Vowpal Wabbit text there is no place for one."""
    with pytest.raises(InputFileError, match="which can hold the timestamp field 'at', found "):
        list(read_examples(write(content), shape_of(timestamp="at")))


def test_a_damaged_gzip_file_is_reported(write: Write) -> None:
    """Cut off or with flipped bits: the examples before the damage are read, then comes the error."""
    packed = gzip.compress(b"1 1:2\n" * 1000)
    damaged = [packed[:-9], packed[:-8] + b"\x00" * 8, b"\x1f\x8bnothing of the kind"]
    for content in damaged:
        with pytest.raises(InputFileError, match="examples: expected a "):
            list(read_examples(write(content)))


def test_what_is_not_a_readable_file_is_reported(tmp_path: Path) -> None:
    """A missing file, and a directory."""
    with pytest.raises(InputFileError, match=r"absent: expected a readable file, found: No such file"):
        list(read_examples(tmp_path / "absent"))
    with pytest.raises(InputFileError, match=r"expected a readable file, found: Is a directory"):
        list(read_examples(tmp_path))


def test_a_line_without_end_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded however long a line is."""
    monkeypatch.setattr(input_stream, "MAX_LINE_BYTES", 20)
    path = write(b"1 1:2\n1 " + b"1:1 " * 100)
    with pytest.raises(InputFileError, match=rf"^{path}:2: expected a line of at most 20 bytes"):
        list(read_examples(path))


@pytest.mark.parametrize(("content", "example"), [(content, example) for content, _, example in CONTENTS])
def test_a_dash_is_standard_input(content: bytes, example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input is read like a file, without seeking, and errors call it by that name."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: object) -> int:
            raise AssertionError("a pipe can't seek")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(content)))
    assert list(read_examples(input_stream.STDIN)) == [example]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(b"?")))
    with pytest.raises(InputFileError, match=r"^standard input: expected a first example"):
        list(read_examples(input_stream.STDIN))


def test_parquet_is_read_from_files_alone(tmp_path: Path) -> None:
    """From its end on: from a named pipe it would wait for a second writer without an end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDWR), "wb") as writer:
        writer.write(b"PAR1")
        writer.flush()
        with pytest.raises(
            InputFileError, match=rf"^{pipe}: expected a format that is read from its start, found Parq"
        ):
            next(read_examples(pipe))


@pytest.mark.parametrize("content", [b"1 1:2\n", b"1 | 1:2\n", b'{"label": 1, "features": {"1": 2}}\n', GOOD])
def test_an_example_is_there_as_soon_as_the_pipe_has_it(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A live pipe that stays open hands over each example when it is complete, not when a buffer is full."""
    out, into = os.pipe()
    with os.fdopen(out, "rb") as reader:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(cast("BinaryIO", reader)))
        examples = read_examples(input_stream.STDIN)
        for _ in range(3):
            os.write(into, content)
            assert isinstance(next(examples), Example)
        os.close(into)
        assert list(examples) == []
