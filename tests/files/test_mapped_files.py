"""One content as flat JSON, nested JSON, msgpack, CSV and Parquet, by one mapping: one model, to the bit."""

import csv
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack
import pytest

from stream_apple.core.batch import Limits
from stream_apple.errors import InputFileError
from stream_apple.files import ColumnRoles, read_examples
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores
from stream_apple.offline.dataset import read_batch
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example
from stream_apple.records.record_reader import MappedReader

MAPPING = InputMapping(
    label="outcome",
    label_map={"yes": 1.0, "no": -1.0},
    weight="w",
    id="key",
    timestamp="at",
    features="*",
    ignore=("secret", "debug.*"),
    categories=("user.zip",),
    times=("at", "user.born"),
    time_zone="Europe/Berlin",
)
LIMITS = Limits(100, 10_000, 10.0, -1.0, 1.0, binary=True)
COLUMNS = ["outcome", "w", "key", "at", "secret", "debug.x", "user.zip", "user.age", "user.born", "city", "score"]


def rows(count: int = 200) -> list[dict[str, Any]]:
    """Flat records with gaps; numbers of any size, categories, times."""
    rng = random.Random(1)
    found = []
    for number in range(count):
        row = {
            "outcome": rng.choice(["yes", "no"]),
            "w": rng.choice([1, 0.5, 2]),
            "key": f"k{number}",
            "at": f"2024-03-{1 + number // 24:02d}T{number % 24:02d}:00:00+01:00",
            "secret": rng.random(),
            "debug.x": "text",
            "user.zip": rng.choice([10115, 80331]),
            "user.age": rng.choice([rng.randrange(18, 80), None]),
            "user.born": rng.choice(["1990-05-01", None]),
            "city": rng.choice(["Berlin", "São Paulo", None]),
            "score": rng.choice([rng.gauss(0, 1), 1e-7, None]),
        }
        found.append({name: value for name, value in row.items() if value is not None})
    return found


def nested(row: dict[str, Any]) -> dict[str, Any]:
    """The same with maps within maps."""
    found: dict[str, Any] = {}
    for path, value in row.items():
        *spaces, name = path.split(".")
        at = found
        for space in spaces:
            at = at.setdefault(space, {})
        at[name] = value
    return found


def digest_of(path: Path, mapping: InputMapping = MAPPING) -> str:
    """Of the model that has learned the file."""
    batch = read_batch([path], LIMITS, ColumnRoles(mapping=mapping))
    return learned(batch)


def learned(batch: Any) -> str:
    """Of the model that has learned the batch."""
    learner = Learner(Options(bits=12, loss="logistic"))
    learner.learn(batch, 0, len(batch.labels), Scores.empty(len(batch.labels)))
    return learner.digest()


@pytest.fixture(scope="module")
def expected() -> str:
    """Of the model that has learned the flat records of a topic."""
    values = [json.dumps(row).encode() for row in rows()]
    decoded = Decoder(LIMITS, reader=MappedReader(MAPPING)).decode(values)
    assert not decoded.reasons.any()
    return learned(decoded.batch)


@pytest.mark.parametrize("shape", [dict, nested])
def test_json_lines(tmp_path: Path, expected: str, shape: Any) -> None:
    """Flat and nested."""
    path = tmp_path / "file.jsonl"
    path.write_text("".join(f"{json.dumps(shape(row), ensure_ascii=False)}\n" for row in rows()), encoding="utf-8")
    assert digest_of(path) == expected


def test_msgpack(tmp_path: Path, expected: str) -> None:
    """Nested, its times of msgpack's own type."""
    path = tmp_path / "file.msgpack"
    path.write_bytes(b"".join(msgpack.packb(nested(row)) for row in rows()))
    assert digest_of(path) == expected


def test_csv(tmp_path: Path, expected: str) -> None:
    """An empty cell is what is absent elsewhere."""
    path = tmp_path / "file.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows())
    assert digest_of(path) == expected


def test_decimals_of_parquet(tmp_path: Path) -> None:
    """As a category one has all its digits, as in CSV, and in Avro behind a registry's frame; else it is a number."""
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "file.parquet"
    amounts = pa.array([Decimal("1.50"), None], pa.decimal128(10, 2))
    parquet.write_table(pa.table({"label": amounts, "code": amounts, "amount": amounts, "at": amounts}), path)
    mapping = InputMapping(features="*", categories=("code",), timestamp="at")
    read = read_examples(path, roles=ColumnRoles(mapping=mapping))
    example = next(read)
    assert example == Example(1.5, 1.0, None, {"": {"code=1.5": 1.0, "amount": 1.5}}, 1500)
    with pytest.raises(InputFileError, match=r"row 2: expected a time .* as 'at', found none"):
        next(read)


def test_parquet(tmp_path: Path, expected: str) -> None:
    """Null is what is absent elsewhere; lists and maps are read, too."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "file.parquet"
    parquet.write_table(pa.Table.from_pylist([{name: row.get(name) for name in COLUMNS} for row in rows()]), path)
    assert digest_of(path) == expected
    parquet.write_table(pa.Table.from_pylist([{"label": True, "tags": ["a", "b"], "user": {"age": 3}}]), path)
    (example,) = read_examples(path, roles=ColumnRoles(mapping=InputMapping(features="*")))
    assert example.label == 1.0
    assert example.features == {"": {"tags=a": 1.0, "tags=b": 1.0}, "user": {"age": 3.0}}
    maps = pa.array([[("age", 3)], None], pa.map_(pa.string(), pa.int64()))  # as Spark writes them
    parquet.write_table(pa.table({"label": [1, 0], "user": maps}), path)
    found = [each.features for each in read_examples(path, roles=ColumnRoles(mapping=InputMapping(features="*")))]
    assert found == [{"user": {"age": 3.0}}, {}]


def test_what_is_refused_names_the_place(tmp_path: Path) -> None:
    """Line and field, by its own name; a column that is not there; a format without names."""
    path = tmp_path / "file"
    path.write_text('{"outcome": "yes", "at": 1e9}\n{"outcome": "perhaps", "at": 1e9}\n')
    roles = ColumnRoles(mapping=MAPPING)
    with pytest.raises(InputFileError, match=r"file:2: expected one of 'yes', 'no' as 'outcome', found perhaps"):
        list(read_examples(path, roles=roles))
    for text in ('{"outcome": "no", "at": 1e9, "w": 99}\n', "outcome,at,w\nno,1e9,99\n"):
        path.write_text(text)
        with pytest.raises(InputFileError, match=r"file, example 1: expected a weight from 0 to 10 .*, in 'w'$"):
            read_batch([path], LIMITS, roles)
    renamed = ColumnRoles({"label": "at", "weight": "w"}, ignored=frozenset({"outcome"}))
    with pytest.raises(InputFileError, match=r"file, example 1: expected a label .*, in 'at'$"):
        read_batch([path], LIMITS, renamed)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputFileError, match=r"expected a column 'outcome' .*, found only 'a', 'b'"):
        list(read_examples(path, roles=roles))
    path.write_text("1 | a b\n")
    with pytest.raises(InputFileError, match="expected JSON lines, msgpack, CSV or Parquet"):
        list(read_examples(path, roles=roles))


def test_the_key_of_a_record_is_no_feature(tmp_path: Path) -> None:
    """Wherever it stands."""
    roles = ColumnRoles(mapping=InputMapping(features="*"))
    path = tmp_path / "file"
    for text in ('{"label": 1, "user": "u7", "x": 1}\n', "label,user,x\n1,u7,1\n"):
        path.write_text(text)
        (example,) = read_examples(path, roles=roles, key_field="user")
        assert (example.key, example.features) == ("u7", {"": {"x": 1.0}})
