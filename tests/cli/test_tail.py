"""`stream-apple tail` on a real broker: what readers of the topics find, as a table and as JSON lines."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition
from support.records import FakeRecord, dead_letter_headers, new_model, stream
from support.topics import TopicFactory, create_worker_topics
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config

from stream_apple.cli import main
from stream_apple.config import load
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.model.dead_letters import Reject
from stream_apple.terminal import printable_line

COUNT = 300
HOSTILE = "red\x1b[31m\x07\u202eback\nnew line"
MODEL = "0123456789abcdef"


class Published:
    """Topics to which a worker has published what it made of two partitions, each in many transactions."""

    def __init__(self, kafka: str, topics: dict[str, str], directory: Path) -> None:
        self.topics = topics
        self.config = write_config(directory / "stream_apple.toml", kafka, topics=topics)
        self._producer = Producer(
            {"bootstrap.servers": kafka, "transactional.id": topics["predictions"], "linger.ms": 0}
        )
        self._producer.init_transactions(DEADLINE_S)
        self.predictions: dict[int, list[dict[str, Any]]] = {0: [], 1: []}
        for partition in self.predictions:
            model, records = new_model(partition), stream(COUNT, partition=partition, bad_share=0.0)
            for start in range(0, COUNT, 10):
                result = model.process(records[start : start + 10])
                found = list(zip(result.predictions, result.timestamps, strict=True))
                self.send("predictions", partition, found)
                self.predictions[partition] += [dict(decode_prediction(value)) for value in result.predictions]
        bad = FakeRecord(1, 77, b"?", 1_700_000_000_123, b"key")
        # It was a dead letter of somebody else's before, and says so in headers of its own.
        again = FakeRecord(1, 78, b"?", -1, None, dead_letter_headers(Reject(bad, Reason.MALFORMED, "x"), "other", "m"))
        self.reject(bad, Reason.WRONG_TYPE, HOSTILE)
        self.reject(again, Reason.BAD_LABEL, "found 7")

    def send(self, topic: str, partition: int, found: list[tuple[bytes, int]], end: str = "commit") -> None:
        """A transaction with these values and times."""
        self._producer.begin_transaction()
        for value, time_ms in found:
            self._producer.produce(self.topics[topic], value, partition=partition, timestamp=time_ms)
        assert self._producer.flush(DEADLINE_S) == 0
        getattr(self._producer, f"{end}_transaction")(60)

    def reject(self, record: FakeRecord, reason: Reason, message: str) -> None:
        """A transaction with a dead letter."""
        headers = dead_letter_headers(Reject(record, reason, message), self.topics["examples"], MODEL)
        self._producer.begin_transaction()
        time_ms = max(record.time_ms, 0)
        self._producer.produce(
            self.topics["dead_letters"], record.payload, record.named, 0, timestamp=time_ms, headers=headers
        )
        self._producer.commit_transaction(DEADLINE_S)

    def leave_open(self) -> None:
        """A transaction that is not decided."""
        self._producer.begin_transaction()
        self._producer.produce(self.topics["predictions"], b"undecided", partition=0)
        assert self._producer.flush(DEADLINE_S) == 0

    def tail(self, *arguments: object) -> Result:
        """Run the command in this process."""
        return CliRunner().invoke(main, ["tail", "--config", str(self.config), *map(str, arguments)])

    def facts(self, *arguments: object) -> list[dict[str, Any]]:
        """What it prints as JSON lines."""
        done = self.tail("--json", *arguments)
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def published(kafka: str, topic: TopicFactory, tmp_path: Path) -> Published:
    """Topics with something in them."""
    return Published(kafka, create_worker_topics(topic, 2), tmp_path)


def test_everything_from_the_beginning_on(published: Published) -> None:
    """Each committed prediction once, in the order of its partition, with all that it says; no aborted one."""
    published.send("predictions", 1, [(b"aborted", 5)] * 3, "abort")
    published.leave_open()
    found = published.facts("--from", "beginning", "--only", "predictions")
    for partition, expected in published.predictions.items():
        mine = [each for each in found if each["partition"] == partition]
        assert [{name: each[name] for name in expected[0] if name != "id"} for each in mine] == [
            {name: each[name] for name in each if name != "id"} for each in expected
        ]
        assert [each.get("id") for each in mine] == [each.get("id") for each in expected]
        assert {each["at"]["topic"] for each in mine} == {published.topics["predictions"]}
    assert len(found) == 2 * COUNT
    assert {each["kind"] for each in found} == {"prediction"}


def test_dead_letters_of_joiners(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, from the topic that the section `join` names; workers' have another."""
    everything = published.facts("--from", "beginning", "--only", "dead-letters")
    assert everything
    monkeypatch.setenv("STREAM_APPLE_JOIN__DEAD_LETTERS", published.topics["dead_letters"])
    monkeypatch.setenv("STREAM_APPLE_TOPICS__DEAD_LETTERS", published.topics["predictions"] + "-none")
    assert published.facts("--from", "beginning", "--only", "join-dead-letters") == everything


def test_the_newest_of_all(published: Published) -> None:
    """Without options, the last ten by their times: far back among the markers of transactions, if need be."""
    published.send("predictions", 0, [(b"aborted", 5)] * 500, "abort")
    everything = published.facts("--from", "beginning")
    for limit, arguments in ((10, ()), (200, ("--limit", 200))):
        found = published.facts(*arguments)
        assert len(found) == limit
        for topic, partition in {(each["at"]["topic"], each["at"]["partition"]) for each in everything}:
            mine, all_of_it = (
                [each for each in messages if (each["at"]["topic"], each["at"]["partition"]) == (topic, partition)]
                for messages in (found, everything)
            )
            assert mine == all_of_it[len(all_of_it) - len(mine) :], "the last ones of each log, in its order"
    # The dead letters are of 2023, all predictions of 2015.
    assert [each["kind"] for each in published.facts("--limit", 3)][-2:] == ["dead_letter"] * 2
    shown = published.tail("--only", "predictions", "--partition", 1).stdout.splitlines()
    assert len(shown) == 11
    for row, expected in zip(shown[1:], published.predictions[1][-10:], strict=True):
        assert f"1@{expected['offset']}  " in row
        assert f"  {expected['prediction']:.6g}  " in row
    assert shown[0].split()[:7] == ["time", "(UTC)", "example", "model", "prediction", "label", "loss"]
    assert {row.split()[3] for row in shown[1:]} == {published.predictions[1][0]["model"][:8]}


def test_dead_letters_with_their_reasons(published: Published) -> None:
    """Where the record was, and why; nothing of what a stranger wrote reaches the terminal as it is."""
    first, second = published.facts("--only", "dead-letters", "--from", "beginning")
    assert (first["kind"], first["partition"], first["offset"]) == ("dead_letter", 1, 77)
    assert (first["reason"], first["message"], first["model"]) == ("wrong_type", HOSTILE, MODEL)
    assert first["timestamp_ms"] == 1_700_000_000_123
    assert (second["topic"], second["offset"], second["reason"]) == (published.topics["examples"], 78, "bad_label")
    done = published.tail("--only", "dead-letters")
    assert all(line.isprintable() for line in done.stdout.splitlines())
    header, *rows = done.stdout.splitlines()
    assert len(rows) == 2, header
    assert rows[1].endswith("  bad_label: found 7")
    assert "2023-11-14 22:13:20.123" in rows[0]
    assert r"wrong_type: red\x1b[31m\x07\u202eback\nnew line" in rows[0]


def test_what_is_no_prediction_is_told(published: Published) -> None:
    """Anyone may write to the topic: each stranger's message is a row, and never the end of the command."""
    good = {"prediction": 1.5, "label": None, "loss": None, "epoch": 3, "model": MODEL}
    place = {"topic": published.topics["examples"], "partition": 0, "offset": 5}
    strange = [
        b"\xc1", b"", msgpack.packb([1]), msgpack.packb(good), msgpack.packb({**good, **place, "prediction": "x"}),
        msgpack.packb({**good, **place, "offset": "5"}), msgpack.packb({**good, **place, "loss": float("nan")}),
        msgpack.packb({**good, **place, "id": {"a": 1}}), b"\x91" * 3000,
        b'{"a":' * 100_000, json.dumps({**good, **place, "label": 10**400}).encode(),
        msgpack.packb({**good, **place, "probabilities": [0.5, "x"]}), b"\0\0\0\0\x07" + msgpack.packb(good),
    ]  # fmt: skip
    known = [msgpack.packb({**good, **place, "id": b"\xff\x00"}), msgpack.packb({**good, **place, "id": HOSTILE})]
    known.append(msgpack.packb({**good, **place, "id": "c", "probabilities": [0.25, 0.75]}))
    published.send("predictions", 0, [(value, 1_750_000_000_000) for value in strange + known])
    found = published.facts("--only", "predictions", "--limit", len(strange) + len(known))
    assert [each["kind"] for each in found] == ["unreadable"] * len(strange) + ["prediction"] * len(known)
    assert all(each["message"].startswith("expected a prediction, found: ") for each in found[: len(strange)])
    framed = found[len(strange) - 1]["message"]
    assert framed == "expected a prediction, found: Confluent's framing: a zero byte, then the schema id 7"
    assert [each["id"] for each in found[len(strange) :]] == ["/wA=", HOSTILE, "c"]
    assert found[-1]["probabilities"] == [0.25, 0.75]
    rows = published.tail("--only", "predictions", "--limit", 20).stdout.splitlines()
    assert all(row.isprintable() for row in rows)
    assert len(rows) == 21


def test_each_row_names_its_model(kafka: str, published: Published) -> None:
    """And its group, if one has it beside a committed offset; in the table, where that is not the configured group."""
    examples, (ours, theirs, nobodys) = published.topics["examples"], ("a" * 16, "b" * 16, "c" * 16)
    own = load(published.config, {}).worker.group
    for group, model in ((own, ours), (f"{own}-b", theirs)):
        member = Consumer({"bootstrap.servers": kafka, "group.id": group})
        note = json.dumps({"v": 1, "start": 0, "model": model})
        member.commit(offsets=[TopicPartition(examples, 0, 9, note)], asynchronous=False)
        member.close()
    told = published.predictions[0][-1]
    values = [msgpack.packb({**told, "model": model, "offset": 900}) for model in (ours, theirs, nobodys)]
    published.send("predictions", 0, [(value, 1_750_000_000_000) for value in values])
    found = published.facts("--only", "predictions", "--limit", 3)
    assert [(each["model"], each.get("group")) for each in found] == [
        (ours, own),
        (theirs, f"{own}-b"),
        (nobodys, None),
    ]
    _, *rows = published.tail("--only", "predictions", "--limit", 3).stdout.splitlines()
    assert [row.split()[3] for row in rows] == [model[:8] for model in (ours, theirs, nobodys)]
    assert [f"(of group {own}-b) " in row for row in rows] == [False, True, False]
    assert "(of group" not in rows[0] + rows[2]


def test_an_offset_of_one_log(published: Published) -> None:
    """From there on, so many; beyond the end it is refused, as is an offset without a log."""
    everything = published.facts("--from", "beginning", "--only", "predictions", "--partition", 0)
    start = everything[40]["at"]["offset"]
    log = ("--only", "predictions", "--partition", 0)
    assert published.facts("--from", start, "--limit", 7, *log) == everything[40:47]
    refused = published.tail("--from", 10**9, *log)
    assert refused.exit_code == 78
    assert "expected an offset from 0 to " in refused.stderr
    assert published.tail("--from", start).exit_code == 2
    assert published.tail("--from", "yesterday", *log).exit_code == 2
    assert published.tail("--partition", 2).exit_code == 78
    nothing = published.tail("--from", "end")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "there are no predictions and no dead-letters to show" in nothing.stderr


def test_following(published: Published) -> None:
    """The newest, then each new one once when it is committed, until the first signal."""
    command = [sys.executable, "-m", "stream_apple", "tail", "--config", str(published.config), "--follow", "--json"]
    last = published.facts("--limit", 1)
    with subprocess.Popen([*command, "--limit", "1"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline()) == last[0]
            prediction = published.predictions[1][0]
            for number in range(3):
                published.send("predictions", 1, [(msgpack.packb({**prediction, "offset": 900 + number}), 1)])
                found = json.loads(process.stdout.readline())
                assert (found["partition"], found["offset"]) == (1, 900 + number)
            process.send_signal(signal.SIGINT)
            wait_until(lambda: process.poll() is not None, "its end")
            assert process.returncode == 130
        finally:
            process.kill()


def test_a_topic_that_is_not_there(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """A configuration error that names it."""
    topics = {**create_worker_topics(topic), "predictions": "nowhere"}
    config = write_config(tmp_path / "stream_apple.toml", kafka, topics=topics)
    done = CliRunner().invoke(main, ["tail", "--config", str(config)])
    assert done.exit_code == 78
    assert "topic nowhere: expected an existing topic, found none" in done.stderr


@pytest.mark.parametrize("text", ["plain", "\u00fcml\u00e4ut \u4e2d", ""])
def test_letters_are_printed_as_they_are(text: str) -> None:
    """Of any script."""
    assert printable_line(text) == text


@pytest.mark.parametrize(
    "sign", ["\x00", "\x1b", "\x7f", "\x9b", "\n", "\r", "\t", "\u2028", "\u202e", "\ufeff", "\ud800", "\U000e0001"]
)
def test_what_steers_a_terminal_is_escaped(sign: str) -> None:
    """Control characters of both sets, ends of lines, directions, and halves of characters."""
    shown = printable_line(f"a{sign}b")
    assert shown.isprintable()
    assert shown.isascii()
    assert shown != "ab"


def test_the_time_is_the_one_that_the_worker_used(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """That in the record, where `input.timestamp` names a field; otherwise the record's own."""
    published = Published(kafka, create_worker_topics(topic, 2), tmp_path)
    records = [{"at": f"2024-05-01T10:00:{second:02}Z", "x": 1} for second in range(30)]
    own_ms = 1_700_000_000_000
    published.send("examples", 0, [(json.dumps(record).encode(), own_ms) for record in records])
    answers = [{**each, "topic": published.topics["examples"]} for each in published.predictions[0][:20]]
    published.send("predictions", 0, [(msgpack.packb(answer), own_ms) for answer in answers])
    options = ("--only", "predictions", "--partition", 0, "--limit", 20)
    assert {each["timestamp_ms"] for each in published.facts(*options)} == {own_ms}
    published.config = write_config(
        tmp_path / "mapped.toml", kafka, topics=published.topics, input={"features": "*", "timestamp": "at"}
    )
    found = published.facts(*options)
    assert [each["timestamp_ms"] for each in found] == [1_714_557_600_000 + 1000 * each["offset"] for each in found]
    assert len(found) == 20
