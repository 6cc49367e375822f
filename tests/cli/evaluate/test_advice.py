"""What is said beside the result, once, on stderr: columns that look like times, short epochs."""

import json
from pathlib import Path

import pytest
from support.evaluate_command import evaluate

from stream_apple.config.duration import DAY, HOUR, MINUTE, longer_epoch
from stream_apple.files import TimeLike, read_examples


def times(path: Path, rows: int, minutes: int, column: str = "at") -> Path:
    """A table with a column of times, so far apart."""
    lines = (
        f"{row % 2},{row % 3},2024-{1 + row * minutes // 40_000:02}-{1 + row * minutes // 1440 % 27:02}T"
        f"{row * minutes // 60 % 24:02}:{row * minutes % 60:02}:00Z\n"
        for row in range(rows)
    )
    path.write_text(f"label,a,{column}\n" + "".join(lines))
    return path


def test_a_column_that_looks_like_a_time_is_named(tmp_path: Path) -> None:
    """Once, with the options that it is for; standard output is the result alone."""
    table = times(tmp_path / "t.csv", 120, 5, "happened at")
    result = evaluate(table, table, "--json")
    assert json.loads(result.stdout)["examples"] == 240
    assert result.stderr == (
        "stream-apple: 'happened at' looks like the time of each example, and is a feature like any other: a table's "
        "rows are learned in the epochs of their times with --timestamp-field 'happened at' --epoch-length 1h, and "
        "--column ignore='happened at' leaves the column out; the examples are shuffled now, and --no-shuffle keeps "
        "the order of the files\n"
    )
    assert "shuffle" not in evaluate(table, "--no-shuffle").stderr
    assert "--column ignore=" in evaluate(table, "--no-shuffle").stderr


def test_a_field_that_looks_like_a_time_is_named_by_its_path(tmp_path: Path) -> None:
    """With the settings of the section `input`, which the options on columns exclude."""
    path = tmp_path / "records"
    path.write_text('{"label": 1, "user": {"seenAt": "2024-05-01T12:00:00Z"}}\n' * 20)
    given = ("--input", "features=*", "--no-shuffle")
    advice = evaluate(path, *given).stderr
    assert "'user.seenAt' looks like the time" in advice
    assert "--column" not in advice
    for setting in ("timestamp", "times", "ignore"):
        assert f"--input {setting}=user.seenAt" in advice
        again = evaluate(path, *given, "--input", f"{setting}=user.seenAt")
        assert (again.exit_code, again.stderr) == (0, ""), setting


@pytest.mark.parametrize("name", ["records", "table"])
def test_patterns_that_match_nothing_are_told_of(name: str, tmp_path: Path) -> None:
    """Of all files together: in records and in tables."""
    contents = {
        "records": ['{"label": 1, "a": 1, "debug": {"x": 1}}\n' * 3, '{"label": 0, "b": 2}\n'],
        "table": ["label,a,debug.x\n1,1,1\n", "label,b\n0,2\n"],
    }
    paths = [tmp_path / f"{number}" for number in range(2)]
    for path, content in zip(paths, contents[name], strict=True):
        path.write_text(content)
    given = ("--input", "features=*", "--input", "ignore=debug.*", "--input")
    assert evaluate(*paths, *given, "categories=a,b").stderr == ""
    said = evaluate(*paths, *given, "categories=a,c,code.*").stderr
    assert [line.partition(" has no effect: ")[0] for line in said.splitlines()] == [
        "stream-apple: input.categories: 'c'",
        "stream-apple: input.categories: 'code.*'",
    ]
    assert "found only 'a', 'b', " in said


def test_whoever_has_said_what_it_is_is_told_nothing(tmp_path: Path) -> None:
    """The time, or no feature."""
    table = times(tmp_path / "t.csv", 120, 5)
    assert evaluate(table, "--column", "ignore=at").stderr == ""
    assert evaluate(table, "--timestamp-field", "at", "--epoch-length", "1h").stderr == ""


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("label,when\n1,2024-05-01\n0,2024-05-02\n", "when"),
        ("label,event_time,a\n1,1709209800,1\n0,1709209801,2\n", "event_time"),
        ("label,ts\n1,1709209800123\n", "ts"),
        ('{"label": 1, "features": {"n": {"time": "2024-05-01T12:00:00Z"}}}\n', "n.time"),
        ("label,amount\n1,1709209800\n", None),
        ("label,lifetime\n1,1709209800\n", None),
        ("label,time\n1,12.5\n", None),
        ("label,code\n1,2024-99-99\n", None),
        ("label,when\n1,2024-05-01\n0,never\n", None),
        ("1 1:1709209800\n", None),
    ],
)
def test_what_looks_like_a_time(content: str, name: str | None, tmp_path: Path) -> None:
    """A text that begins with a date; a number only if its name says so, and it is one of our days."""
    path = tmp_path / "table"
    path.write_text(content)
    found = TimeLike()
    count = len(list(found.passing(read_examples(path))))
    assert count == len(list(read_examples(path)))
    assert found.name == name


@pytest.mark.parametrize(
    ("length", "examples", "epochs", "better"),
    [
        (HOUR, 50 * 6900, 6900, DAY),
        (HOUR, 199 * 200, 200, 6 * HOUR),
        (HOUR, 200 * 200, 200, None),
        (HOUR, 50 * 199, 199, None),
        (MINUTE, 3 * 1000, 1000, 6 * HOUR),
        (1000, 200, 200, HOUR),
        (HOUR, 300, 300, 90 * DAY),
        (100 * DAY, 300, 300, None),
    ],
)
def test_a_better_length_of_epochs(length: int, examples: int, epochs: int, better: int | None) -> None:
    """The first round one with a thousand examples, if there are many epochs with few; else the longest."""
    assert longer_epoch(length, examples, epochs) == better


def test_short_epochs_are_told_of(tmp_path: Path) -> None:
    """With the option and a better value, once; with that value, nothing is said."""
    table = times(tmp_path / "t.csv", 1500, 15)
    options = (table, "--timestamp-field", "at", "--bits", 10, "--epoch-length")
    said = evaluate(*options, "1h").stderr
    assert said.startswith("stream-apple: 375 epochs of 1h have 4 examples each: most of the time is spent at their ")
    assert said.endswith("; try --epoch-length 30d\n")
    assert said.count("\n") == 1
    assert evaluate(*options, "30d").stderr == ""
