"""What is said beside the result, once, on stderr: columns that look like times, short epochs."""

import json
from pathlib import Path

import pytest
from support.evaluate_command import evaluate

from stream_apple.config.duration import DAY, HOUR, MINUTE, longer_epoch


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
        "stream-apple: 'happened at' looks like the time of each example, and is a feature like any other: --timestamp "
        "'happened at' --epoch-length 1h learns examples in the epochs of their times, --times 'happened at' makes "
        "features of hour, weekday and month, and --ignore 'happened at' leaves the field out; the examples are "
        "shuffled now, and --no-shuffle keeps the order of the files\n"
    )
    assert "shuffle" not in evaluate(table, "--no-shuffle").stderr


def test_a_field_that_looks_like_a_time_is_named_by_its_path(tmp_path: Path) -> None:
    """With the options that say what it is; after each of them nothing is said."""
    path = tmp_path / "records"
    path.write_text('{"label": 1, "user": {"seenAt": "2024-05-01 12:00:00 UTC"}}\n' * 20)
    advice = evaluate(path, "--no-shuffle").stderr
    assert "'user.seenAt' looks like the time" in advice
    for option in (
        ["--timestamp", "user.seenAt", "--epoch-length", "1h"],
        ["--times", "user.seenAt"],
        ["--ignore", "user.seenAt"],
    ):
        assert " ".join(option[:2]) in advice
        again = evaluate(path, *(["--no-shuffle"] if len(option) == 2 else []), *option)
        assert (again.exit_code, again.stderr) == (0, ""), option


def test_for_dates_no_epochs_of_an_hour_are_advised(tmp_path: Path) -> None:
    """An epoch has a day at least."""
    path = tmp_path / "dates.csv"
    path.write_text("label,day\n" + "1,2024-05-01\n0,2024-05-02\n" * 10)
    assert "--timestamp day --epoch-length 1d learns" in evaluate(path).stderr


def test_text_that_spells_numbers_is_told_of(tmp_path: Path) -> None:
    """In a format with types nobody can know whether it is meant as one."""
    path = tmp_path / "rows"
    path.write_text(
        "".join(f'{{"label": {row % 2}, "visits": "{row}", "zip": "{row:05}", "a": "x"}}\n' for row in range(20))
    )
    line = "stream-apple: {0}: every value is text that spells a number; --numbers {0} reads it as one\n"
    assert evaluate(path).stderr == line.format("visits") + line.format("zip")
    assert evaluate(path, "--numbers", "visits", "--categories", "zip").stderr == ""


def test_what_each_field_becomes(tmp_path: Path) -> None:
    """A table, and nothing is learned; also if a record can't be read."""
    path = tmp_path / "rows"
    path.write_text('{"label": 1, "visits": "281", "price": 3.5}\n{"label": 0, "visits": "7", "price": null}\n')
    result = evaluate(path, "--explain-input")
    assert [" ".join(line.split()) for line in result.stdout.splitlines()] == [
        "field becomes missing example",
        "label label 0% 1",
        'visits category 0% "281" every value is text that spells a number; --numbers visits reads it as one',
        "price number 50% 3.5",
    ]
    path.write_text('{"label": 1, "at": [[1]]}\n')
    result = evaluate(path, "--explain-input")
    assert "at     list" in result.stdout
    assert "expected a list of texts, or one of numbers as 'at'" in str(result.exception)
    path.write_text("1 1:2\n")
    assert "expected files whose fields have names" in str(evaluate(path, "--explain-input").exception)


def test_weights_far_from_one_are_told_of(tmp_path: Path) -> None:
    """They scale each step."""
    path = tmp_path / "rows.csv"
    path.write_text("label,weight,a\n" + "1,0.001,2\n0,0.001,3\n" * 20)
    assert "the mean of the first 40 weights is 0.001, which scales each step" in evaluate(path).stderr


def test_labels_that_are_counted_from_one(tmp_path: Path) -> None:
    """The options that help are named."""
    path = tmp_path / "rows.vw"
    path.write_text("1 |f a\n2 |f b\n3 |f c\n")
    assert "(--label-map 1=0,2=1 numbers" in str(evaluate(path, "--loss", "logistic").exception)
    told = str(evaluate(path, "--loss", "softmax", "--classes", 3).exception)
    assert told.endswith("(classes from 1 to 3 need --classes 4, or --label-map)")
    assert evaluate(path, "--loss", "softmax", "--classes", 3, "--label-map", "1=0,2=1,3=2").exit_code == 0


def test_cells_that_are_no_numbers_are_told_of_once(tmp_path: Path) -> None:
    """With their count."""
    path = tmp_path / "cars.csv"
    path.write_text("label,horsepower\n" + "".join(f"{row % 2},{row or '?'}\n" for row in range(100)))
    assert evaluate(path).stderr == (
        "stream-apple: column 'horsepower': 99 of 100 values are numbers; '?' (1) is read as missing\n"
    )


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
    given = ("--ignore", "debug.*", "--categories")
    assert evaluate(*paths, *given, "a,b").stderr == ""
    said = evaluate(*paths, *given, "a,c,code.*").stderr
    assert [line.partition(" has no effect: ")[0] for line in said.splitlines()] == [
        "stream-apple: --categories: 'c'",
        "stream-apple: --categories: 'code.*'",
    ]
    assert "found only 'a', 'b', " in said


def test_whoever_has_said_what_it_is_is_told_nothing(tmp_path: Path) -> None:
    """The time, or no feature."""
    table = times(tmp_path / "t.csv", 120, 5)
    assert evaluate(table, "--ignore", "at").stderr == ""
    assert evaluate(table, "--timestamp", "at", "--epoch-length", "1h").stderr == ""


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
    options = (table, "--timestamp", "at", "--bits", 10, "--epoch-length")
    said = evaluate(*options, "1h").stderr
    assert said.startswith("stream-apple: 375 epochs of 1h have 4 examples each: most of the time is spent at their ")
    assert said.endswith("; try --epoch-length 30d\n")
    assert said.count("\n") == 1
    assert evaluate(*options, "30d").stderr == ""
