"""One content by every entrance: the same features, the same model, and the same scores, to the bit."""

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from support.entrances import FLAT, NESTED, Entrance, Record

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores
from stream_apple.records.mapping import InputMapping

ROWS = 150
_LETTERS = "abz ÄßñЖ中🍏.=^_-0"


def _word(draw: random.Random) -> str:
    """Letters of many scripts, signs that our names use, points, and spaces; it spells neither a number nor a truth."""
    return "w" + "".join(draw.choices(_LETTERS, k=draw.randrange(8)))


def _text(draw: random.Random) -> str:
    return draw.choice(
        ["tall, dark", 'says "no"', " space ", "two\r\nlines", "NA is Namibia", _word(draw), _word(draw)]
    )


KINDS: dict[str, Callable[[random.Random], object]] = {
    "integer": lambda draw: draw.choice([draw.randrange(-9, 9), draw.randrange(2**53)]),
    "float": lambda draw: draw.choice([draw.gauss(0, 1), 1e-7, 0.1, 7.0, -0.0, 1e15]),
    "boolean": lambda draw: draw.random() < 0.5,
    "text": _text,
    "decimal": lambda draw: Decimal(draw.randrange(-999, 999)).scaleb(-2),
    "uuid": lambda draw: UUID(int=draw.getrandbits(128)),
    "code": lambda draw: draw.choice([7.10, 7.0, 0.1, 12.0]),
    "counted": lambda draw: draw.random() < 0.5,
    "time": lambda draw: datetime(2024, 5, 1, tzinfo=UTC) + timedelta(seconds=draw.randrange(10**7)),
    "date": lambda draw: date(2024, 5, 1) + timedelta(days=draw.randrange(300)),
    "clock": lambda draw: time(draw.randrange(24), draw.randrange(60)),
    "day": lambda draw: date(2024, 5, 1) + timedelta(days=draw.randrange(5)),
}
"""What a column may hold; the last six are named by the mapping, see `mapping_of`."""


def table(seed: int, *, nested: bool) -> tuple[list[Record], InputMapping]:
    """Return random records whose columns have names of all kinds, and the mapping by which they are read."""
    draw = random.Random(seed)
    kinds = draw.choices(list(KINDS), k=12)
    # A number at the end of a name keeps names apart, and ` ` at its end is kept as any other letter.
    names = [f"{_word(draw)}{place}{draw.choice(['', ' ', '.n', '=x'])}" for place in range(len(kinds))]
    records = []
    for row in range(ROWS):
        record: Record = {"y": draw.choice([0, 1, None]), "w": draw.choice([1, 0.5, 2]), "key": f"k{row}"}
        record["at"] = (datetime(2024, 5, 1, tzinfo=UTC) + timedelta(minutes=row)).isoformat()
        for name, kind in zip(names, kinds, strict=True):
            record[name] = None if draw.random() < 0.2 else KINDS[kind](draw)
        if nested:
            record["tags"] = draw.choice([["a", "b"], ["b"], None])
            record["vector"] = [draw.random(), draw.random()]
            record["map"] = {"n": draw.randrange(9), "deep": {"t": _word(draw), "f": draw.random()}}
        elif draw.random() < 0.3:
            record = {name: value for name, value in record.items() if value is not None}
        records.append(record)
    first = {"y": 1, "w": 1, "key": "first", "at": "2024-04-30T00:00:00+00:00"}
    # The first record has all fields, so that columns come in one order.
    whole = {
        name: next(each[name] for each in records if each.get(name) is not None) for name in records_names(records)
    }
    records.insert(0, {name: first.get(name, value) for name, value in whole.items()})
    order = list(whole)
    records = [{name: record[name] for name in order if name in record} for record in records]
    return records, mapping_of(dict(zip(names, kinds, strict=True)))


def records_names(records: list[Record]) -> list[str]:
    """Return the names of all fields that have a value."""
    return list(dict.fromkeys(name for record in records for name, value in record.items() if value is not None))


def mapping_of(kinds: dict[str, str]) -> InputMapping:
    """Return a mapping that names the columns of some kinds."""

    def named(*wanted: str) -> tuple[str, ...]:
        return tuple(name for name, kind in kinds.items() if kind in wanted)

    return InputMapping(
        label="y",
        weight="w",
        id="key",
        timestamp="at",
        features="*",
        categories=named("code", "day"),
        numbers=named("counted"),
        times=(*named("time", "date", "clock"), "at"),
        time_zone="Europe/Rome",
    )


def outcome(batch: Batch) -> tuple[Any, ...]:
    """Return all bits of a batch, of the scores of its rows, and of the model that has learned it."""
    learner, scores = Learner(Options(bits=12)), Scores.empty(len(batch.labels))
    half = len(batch.labels) // 2
    learner.learn(batch, 0, half, scores)
    learner.end_epoch()
    learner.learn(batch, half, len(batch.labels), scores)
    parts = [*batch, *scores]
    bits = [np.asarray(part).tobytes() if part is not None else None for part in parts]
    return (*bits, learner.digest())


@pytest.mark.parametrize("entrance", [name for name in FLAT if name != "topic of JSON"])
@pytest.mark.parametrize("seed", range(6))
def test_tables(seed: int, entrance: str, tmp_path: Path) -> None:
    """Integers, floats, truths, texts, decimals, UUIDs, times, and what is missing, under names of any kind."""
    records, mapping = table(seed, nested=False)
    same(records, mapping, FLAT[entrance], tmp_path)


@pytest.mark.parametrize("entrance", [name for name in NESTED if name != "topic of JSON"])
@pytest.mark.parametrize("seed", range(20, 23))
def test_nested_tables(seed: int, entrance: str, tmp_path: Path) -> None:
    """With maps within maps, and lists."""
    records, mapping = table(seed, nested=True)
    same(records, mapping, NESTED[entrance], tmp_path)


def test_maps_are_columns_with_paths(tmp_path: Path) -> None:
    """So a nested topic and a flat file are the same."""
    records, mapping = table(30, nested=True)
    for record in records:
        record.pop("tags", None)
        record.pop("vector", None)
    same(records, mapping, FLAT["CSV"], tmp_path)


def same(records: list[Record], mapping: InputMapping, entrance: Entrance, folder: Path) -> None:
    """Require of an entrance what a topic of JSON gives."""
    expected = outcome(FLAT["topic of JSON"](records, mapping, folder))
    assert outcome(entrance(records, mapping, folder)) == expected
