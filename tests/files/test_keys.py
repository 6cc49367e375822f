"""The key of a record from a field of the file: the same keys in every format that has fields; and what is refused."""

from collections.abc import Callable
from pathlib import Path

import msgpack
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.file_formats import flat_examples, shape_of

from stream_apple.errors import InputFileError
from stream_apple.files import read_examples
from stream_apple.records.message.example import Example, key_of

USERS = ("ann", "zoë_1")
Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Put text or bytes into a file whose name says nothing."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "examples"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def as_json(path: Path) -> str:
    """The key beside the label."""
    path.write_text("".join(f'{{"label": 1, "id": 7, "user": "{user}", "features": {{"1": 2}}}}\n' for user in USERS))
    return "user"


def as_msgpack(path: Path) -> str:
    """The same, text for one and bytes for the other."""
    records = [{"label": 1, "id": 7, "features": {"1": 2}, "user": user} for user in (USERS[0], USERS[1].encode())]
    path.write_bytes(b"".join(map(msgpack.packb, records)))
    return "user"


def as_csv(path: Path) -> str:
    """A column, which is no feature then."""
    path.write_text("label,id,user,1\n" + "".join(f"1,7,{user},2\n" for user in USERS))
    return "user"


def as_parquet(path: Path) -> str:
    """The same."""
    parquet.write_table(pa.table({"label": [1, 1], "id": [7, 7], "user": USERS, "1": [2, 2]}), path)
    return "user"


WRITERS = (as_json, as_msgpack, as_csv, as_parquet)


@pytest.mark.parametrize("put", WRITERS, ids=lambda put: put.__name__)
def test_each_format_may_hold_the_keys(put: Callable[[Path], str], tmp_path: Path) -> None:
    """They are those of the records, whatever the id; nothing else changes."""
    path = tmp_path / "examples"
    field = put(path)
    keyed, plain = list(read_examples(path, key=field)), list(read_examples(path))
    assert [key_of(example, 3) for example in keyed] == [user.encode() for user in USERS]
    assert [key_of(example, 3) for example in plain] == [b"7"] * 2
    assert [example._replace(key=None) for example in keyed] == plain


def test_a_key_is_the_field_before_the_id_before_the_number() -> None:
    """As bytes; empty text is a key, too."""
    example = Example(1.0, 1.0, None, {})
    assert key_of(example, 12) == b"12"
    assert key_of(example._replace(id=5), 12) == b"5"
    assert key_of(example._replace(id=5, key=b"\xff"), 12) == b"\xff"
    assert key_of(example._replace(id=5, key=0), 12) == b"0"
    assert key_of(example._replace(id=5, key=""), 12) == b""


def test_a_key_is_as_it_is_written(write: Write) -> None:
    """Whatever the feature of its column is."""
    path = write("label,user,a\n1,007,2\n")
    for shape, features in (
        (shape_of(), {"user": 7.0, "a": 2.0}),
        (shape_of(categories=("user",)), {"user=007": 1.0, "a": 2.0}),
        (shape_of(ignore=("user",)), {"a": 2.0}),
    ):
        assert flat_examples(path, shape, "user") == [Example(1.0, 1.0, None, features, key="007")]
    assert flat_examples(path, shape_of(id="user"), "user") == [Example(1.0, 1.0, "007", {"a": 2.0}, key="007")]


def test_bytes_of_parquet_are_keys(tmp_path: Path) -> None:
    """Which no feature may be."""
    path = tmp_path / "examples"
    parquet.write_table(pa.table({"label": [1], "user": [b"\xff\x00"], "a": [2]}), path)
    found = flat_examples(path, shape_of(ignore=("user",)), "user")
    assert found == [Example(1.0, 1.0, None, {"a": 2.0}, key=b"\xff\x00")]


@pytest.mark.parametrize(
    ("content", "field", "fault"),
    [
        ('{"label": 1, "features": {}}\n', "user", ":1: expected the key field 'user', found only 'label', 'features'"),
        ('{"user": 1.5, "features": {}}', "user", ":1: expected text, an integer or bytes as key in 'user', found 1.5"),
        (
            '{"user": 18446744073709551616, "features": {}}\n',
            "user",
            ":1: expected an integer of 64 bits, which msgpack can hold, as key in 'user', found 18446744073709551616",
        ),
        ("label,user,a\n1,x,2\n1,,2\n", "user", ":3: expected the key field 'user', found only 'label', 'a'"),
        ("label,a\n1,2\n", "user", ":1: expected a column 'user', found only 'a', 'label'"),
        ("1 |f x\n", "user", ": expected JSON lines, msgpack, CSV or Parquet, which can hold the key field 'user'"),
        ("1 1:2\n", "qid", ": expected JSON lines, msgpack, CSV or Parquet, which can hold the key field 'qid'"),
        (msgpack.packb({"features": {}}), "user", ": message at byte 0: expected the key field 'user'"),
    ],
)  # fmt: skip
def test_an_example_without_its_key_is_refused(content: str | bytes, field: str, fault: str, write: Write) -> None:
    """Another's key would make it another user's: what was expected, what was found, and where."""
    path = write(content)
    with pytest.raises(InputFileError) as caught:
        list(read_examples(path, key=field))
    assert str(caught.value).startswith(f"{path}{fault}")


def test_the_query_of_svmlight_may_be_any_text(write: Write) -> None:
    """Also where it is read over, which what it is made of does not change."""
    assert list(read_examples(write("1 qid:zoë_1 1:2\n"))) == [Example(1.0, 1.0, None, {"1": 2.0})]
