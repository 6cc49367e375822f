"""`stream-apple produce`: options, summary and signals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest
from click.testing import CliRunner, Result
from support.topics import TopicFactory, read_all
from support.waiting import DEADLINE_S, wait_until

from stream_apple.cli import main
from stream_apple.config.input_settings import InputSettings
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.parsing import parsed_record
from stream_apple.records.times import time_text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Five rows of svmlight, one of them without features."""
    path = tmp_path / "rows"
    path.write_text("1 1:1\n-1 2:1\n1\n-1 4:1\n1 5:1\n")
    return path


def produce(*arguments: object) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, ["produce", *map(str, arguments)])


def times(bootstrap: str) -> list[int]:
    """The timestamps of all messages of partition 0."""
    return [message.timestamp()[1] for message in read_all(bootstrap, "examples")]


def test_the_summary_says_what_was_done(mock_examples: str, file: Path) -> None:
    """One line with examples, bytes, seconds and rate; a warning for rows that the stream will reject."""
    result = produce(file, "--bootstrap-servers", mock_examples)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("sent 5 examples (")
    assert " to examples over 4 partitions in " in result.stdout
    assert result.stderr == ""


def test_the_summary_as_json_has_the_same_facts(mock_examples: str, file: Path) -> None:
    """Every number under its name."""
    before = int(time.time() * 1000)
    result = produce(file, file, "--bootstrap-servers", mock_examples, "--partitions", 2, "--json", "--quiet")
    summary = json.loads(result.stdout)
    last = summary.pop("last_time_ms")
    assert before <= last <= int(time.time() * 1000)
    assert summary.pop("start_time_ms") == summary.pop("first_time_ms") == last - 9
    assert summary.pop("seconds") > 0
    assert summary.pop("examples_per_second") > 0
    assert summary.pop("bytes") > 0
    assert summary == {
        "topic": "examples",
        "partitions": 2,
        "examples": 10,
        "interrupted": False,
    }


def test_the_key_may_come_from_a_field(mock_examples: str, tmp_path: Path) -> None:
    """It is not in the message, and says which partition the record goes to: that of every other with this key."""
    path = tmp_path / "rows"
    rows = [{"label": 1, "id": number, "user": f"u{number % 3}", "features": {"a": 1}} for number in range(12)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert produce(path, "--key", "user", "--bootstrap-servers", mock_examples).exit_code == 0
    found = set()
    for message in read_all(mock_examples, "examples", 4):
        sent = msgpack.unpackb(message.value() or b"")
        assert sent.keys() == {"label", "id", "features"}
        assert message.key() == f"u{sent['id'] % 3}".encode()
        found.add((message.key(), message.partition()))
    assert len(found) == 3


def test_a_table_is_sent_by_its_columns(mock_examples: str, tmp_path: Path) -> None:
    """The label's column, the id as key, the column of times, and categories by their names."""
    path = tmp_path / "table"
    path.write_text("clicked,at,id,city,age\n1,1700000000,u7,Rome,3\n")
    options = ("--label", "clicked", "--timestamp", "at", "--bootstrap-servers", mock_examples)
    assert produce(path, *options, "--partitions", 1).exit_code == 0
    (message,) = read_all(mock_examples, "examples")
    assert (message.key(), message.timestamp()[1]) == (b"u7", 1_700_000_000_000)
    sent = msgpack.unpackb(message.value() or b"")
    assert sent == {"label": 1.0, "id": "u7", "features": {"": {"city=Rome": True, "age": 3.0}}}


@pytest.mark.parametrize("features", ["*", None])
def test_with_a_section_input_rows_are_sent_as_records(
    mock_examples: str, tmp_path: Path, features: str | None
) -> None:
    """Which workers with that section read as the file was read; no option may say otherwise."""
    path, config = tmp_path / "table.csv", tmp_path / "worker.toml"
    path.write_text(
        "clicked,at,id,city,age,new,code,secret\nyes,1700000000,u7,Rome,3,True,7.10,9\n,1700000001,u8,,NA,,,\n"
    )
    settings = {
        "label": "clicked", "label_map": {"yes": 1.0}, "timestamp": "at", "categories": ["code"], "ignore": ["secret"],
    } | ({} if features is None else {"features": features})  # fmt: skip
    lines = "\n".join(
        f"{name} = {json.dumps(value)}".replace('{"yes": 1.0}', "{ yes = 1.0 }") for name, value in settings.items()
    )
    config.write_text(f'[kafka]\n"bootstrap.servers" = "{mock_examples}"\n[input]\n{lines}\n')
    assert produce(path, "--config", config, "--partitions", 1).exit_code == 0
    mapping = InputSettings.model_validate({**settings, "categories": ("code",), "ignore": ("secret",)}).mapping()
    assert mapping is not None
    first, second = (parsed_record(message.value() or b"") for message in read_all(mock_examples, "examples"))
    found = RecordMapper(mapping).example(first).example
    assert (found.label, found.id, found.timestamp_ms) == (1.0, "u7", 1_700_000_000_000)
    assert found.features == {"": {"city=Rome": 1.0, "age": 3.0, "new=true": 1.0, "code=7.1": 1.0}}
    found = RecordMapper(mapping).example(second).example
    assert (found.label, found.features) == (None, {})
    result = produce(path, "--config", config, "--label", "clicked")
    assert result.exit_code == 2
    assert "--label: expected no such option" in " ".join(result.stderr.split())


def test_quiet_prints_nothing_but_warnings(mock_examples: str, file: Path) -> None:
    """No summary on standard output."""
    assert produce(file, "--bootstrap-servers", mock_examples, "--quiet").stdout == ""


def test_the_configuration_names_cluster_and_topic(mock_examples: str, file: Path, tmp_path: Path) -> None:
    """Without options, the file's [kafka] and [topics] decide."""
    config = tmp_path / "config.toml"
    config.write_text(f'[kafka]\n"bootstrap.servers" = "{mock_examples}"\n[topics]\nexamples = "absent"\n')
    assert "topic absent: expected it on" in produce(file, "--config", config).stderr
    assert produce(file, "--config", config, "--topic", "examples").exit_code == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (("--interval", "1m30s"), [90_000 * number for number in range(10)]),
        (("--rate", "3000/s"), [number // 3 for number in range(10)]),
        (("--rate", "3000", "--interval", "5ms"), [5 * number for number in range(10)]),
        (("--limit", "7"), [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_times_are_evenly_spaced_over_all_files(
    options: tuple[str, ...], expected: list[int], mock_examples: str, file: Path
) -> None:
    """Start + i * interval, i counted over repetitions and files; the default follows the rate."""
    start = 1_700_000_000_000
    common = ("--bootstrap-servers", mock_examples, "--partitions", 1, "--start-time", "2023-11-14T22:13:20Z")
    assert produce(file, *common, "--repeat", 2, *options).exit_code == 0
    assert times(mock_examples) == [start + offset for offset in expected]


@pytest.mark.parametrize("options", [(), ("--limit", 7), ("--rate", "1000/s")])
def test_times_end_now_unless_told_otherwise(mock_examples: str, file: Path, options: tuple[object, ...]) -> None:
    """However many there are and however far apart: what is sent later is not late, and the summary says the span."""
    before = int(time.time() * 1000)
    common = ("--bootstrap-servers", mock_examples, "--partitions", 1, "--repeat", 2)
    result = produce(file, *common, "--interval", "1h", *options)
    found = times(mock_examples)
    assert before <= found[-1] <= int(time.time() * 1000)
    assert found == [found[0] + number * 3_600_000 for number in range(len(found))]
    first, last = (time_text(found[at]) for at in (0, -1))
    assert result.stdout.endswith(f" examples/s; their times: {first} to {last}\n")


def test_at_a_rate_alone_times_begin_now(mock_examples: str, file: Path) -> None:
    """They are the times of sending."""
    before = int(time.time() * 1000)
    assert produce(file, "--bootstrap-servers", mock_examples, "--partitions", 1, "--rate", "100/s").exit_code == 0
    found = times(mock_examples)
    assert before <= found[0] <= found[-1] <= int(time.time() * 1000)
    assert found == [found[0] + 10 * number for number in range(5)]


@pytest.mark.parametrize(("start", "hours"), [("-14h", -14), ("+90m", 1.5)])
def test_a_start_may_be_relative(mock_examples: str, file: Path, start: str, hours: float) -> None:
    """A duration with its sign, from now."""
    earliest = int((time.time() + hours * 3600) * 1000)
    assert produce(file, "--bootstrap-servers", mock_examples, "--partitions", 1, "--start", start).exit_code == 0
    assert earliest <= times(mock_examples)[0] <= earliest + 60_000


def test_what_comes_through_a_pipe_has_the_times_of_sending(mock_examples: str, tmp_path: Path) -> None:
    """It can't be counted beforehand. A named pipe is one, too."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("1 1:1\n1 2:1\n1 3:1\n",))
    writer.start()
    before = int(time.time() * 1000)
    result = produce(pipe, "--bootstrap-servers", mock_examples, "--partitions", 1, "--json")
    writer.join()
    assert json.loads(result.stdout)["last_time_ms"] is None
    found = times(mock_examples)
    assert before <= found[0] <= found[2] <= int(time.time() * 1000)


def test_a_span_that_the_topic_does_not_take_is_refused_before_anything_is_sent(
    kafka: str, topic: TopicFactory, file: Path
) -> None:
    """Five examples, the first further back than the topic takes: told with the limit, and the topic stays empty."""
    name = topic("examples", config={"message.timestamp.before.max.ms": "86400000"})
    result = produce(file, "--bootstrap-servers", kafka, "--topic", name, "--interval", "12h")
    assert result.exit_code == 78
    assert f"topic {name}: expected times from 20" in result.stderr
    assert "Z (message.timestamp.before.max.ms) to " in result.stderr
    assert read_all(kafka, name) == []
    assert produce(file, "--bootstrap-servers", kafka, "--topic", name, "--interval", "5h").exit_code == 0
    assert len(read_all(kafka, name)) == 5


def test_times_may_come_from_a_field(mock_examples: str, tmp_path: Path) -> None:
    """Each example has the time that its field holds."""
    path = tmp_path / "rows"
    path.write_text('{"features": {"a": 1}, "at": 5}\n{"features": {"a": 1}, "at": "2023-11-14T22:13:20.5Z"}\n')
    options = ("--bootstrap-servers", mock_examples, "--partitions", 1, "--timestamp", "at", "--json")
    summary = json.loads(produce(path, *options).stdout)
    assert [summary[f"{name}_time_ms"] for name in ("start", "first", "last")] == [None, 5000, 1_700_000_000_500]
    assert times(mock_examples) == [5000, 1_700_000_000_500]


def test_an_unreadable_file_ends_with_its_own_exit_code(mock_examples: str, file: Path) -> None:
    """The message says where. A file is read through before any of it is sent, unless it is sent at a rate."""
    file.write_text("1 1:1\n1 1:x\n")
    for options, end in (((), "nothing was sent"), (("--rate", "100/s"), "1 examples before it were delivered")):
        assert times(mock_examples) == []
        result = produce(file, "--bootstrap-servers", mock_examples, "--partitions", 1, *options)
        assert result.exit_code == 65
        assert result.stderr.startswith(f"stream-apple: {file}:2: expected a number below 2^60 in size")
        assert result.stderr.endswith(f"; {end}\n")


def test_a_span_that_no_calendar_has_is_refused(mock_examples: str, file: Path) -> None:
    """Before 1970 there is no timestamp of Kafka."""
    result = produce(file, "--bootstrap-servers", mock_examples, "--interval", "9000d")
    assert result.exit_code == 2
    assert "expected times from 1970 to 9999, found 5 examples, 9000d apart, that reach further" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'FILE...'"),
        (("x", "--rate", "0/s"), "expected a number of examples a second such as 500/s, found '0/s'"),
        (("x", "--rate", "1/0"), "expected a number of examples a second such as 500/s, found '1/0'"),
        (("x", "--rate", "fast"), "expected a number of examples a second such as 500/s, found 'fast'"),
        (("x", "--start-time", "soon"), "expected a time from 1970 to 9999"),
        (("x", "--interval", "5"), "expected a duration such as '250ms', '5m' or '1h30m', found '5'"),
        (("x", "--partitions", "0"), "0 is not in the range x>=1"),
        (("x", "--timestamp", "at", "--interval", "1s"), "--start-time and --interval do not apply"),
        (("x", "--timestamp", "at", "--repeat", "2"), "would send the same times again"),
        (("-", "--repeat", "2"), "standard input can be read once only"),
        (("-", "-"), "standard input can be read once only"),
        (("-", "--interval", "1s"), "a pipe passes once: expected --start-time as well, such as -14h"),
        (("x", "--start", "-14"), "or as a duration before or after now, such as -14h"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: tuple[str, ...], message: str) -> None:
    """Before anything is connected, with click's exit code for usage errors."""
    result = produce(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.fixture
def waiting(mock_examples: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process of its own, reading a pipe that nobody closes, with three examples delivered."""
    arguments = ["produce", "-", "--bootstrap-servers", mock_examples, "--partitions", "1", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "stream_apple", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("STREAM_APPLE_")},
    )
    assert process.stdin is not None
    process.stdin.write("1 |f a\n1 |f b\n1 |f c\n")
    process.stdin.flush()
    wait_until(lambda: len(times(mock_examples)) == 3, "three messages")
    yield process
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_the_count(number: signal.Signals, waiting: subprocess.Popen[str]) -> None:
    """Even while a silent pipe is waited for: the summary is printed, and the exit code tells the signal."""
    waiting.send_signal(number)
    assert waiting.stdout is not None
    summary = json.loads(waiting.stdout.read())
    assert waiting.wait(DEADLINE_S) == 128 + number
    assert (summary["examples"], summary["interrupted"]) == (3, True)


def test_made_up_times_that_make_short_epochs_are_told_of(mock_examples: str, tmp_path: Path) -> None:
    """With the setting of the worker, once; and that the file seems to have times of its own."""
    path = tmp_path / "rows.csv"
    path.write_text("label,at\n" + "1,2024-05-01\n" * 1200)
    options = ("--bootstrap-servers", mock_examples, "--partitions", 1)
    said = produce(path, "--interval", "1h", *options).stderr.splitlines()
    assert said == [
        (
            "stream-apple: 'at' looks like the time of each example, and is a feature like any other: with "
            "--timestamp at, examples have their own times, and not made-up ones"
        ),
        (
            "stream-apple: 1,199 epochs of 1h have 1 examples each: most of the time is spent at their ends, where a "
            'model grows, and little is gained by it; try epochs.length = "90d" for the worker'
        ),
    ]
    assert produce(path, "--timestamp", "at", *options).stderr == ""
