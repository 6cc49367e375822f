"""What a cluster has lost of a group's state, on a real broker: how a worker that starts then ends, or goes on."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exports are not marked
from end_to_end.expected_outputs import Outputs
from support.command import call_command
from support.records import stream
from support.topics import COMPACTED, TopicFactory, create_topics, create_worker_topics
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.config import Config, load
from stream_apple.errors import ConfigurationError, SnapshotError

COUNT = 300
END_S = 60.0
"""For a start and the wait for what does not come, on a busy machine; PATIENCE_S of a restore is longer."""


class Group:
    """A worker's group on topics of one partition, of which any member leaves when it stops."""

    def __init__(self, kafka: str, topic: TopicFactory, directory: Path, started: ExitStack) -> None:
        self.kafka = kafka
        self.path = write_config(
            directory / "stream_apple.toml",
            kafka,
            kafka={"session.timeout.ms": 6000},
            topics=create_worker_topics(topic),
            worker={"commit_interval": "20ms", "snapshot_interval": "1h"},
            learner={"bits": 12},
            limits={"max_features": 16},
        )
        self.config: Config = load(self.path, {})
        self.outputs = Outputs(kafka, self.config, 1)
        self._log = directory / "worker.log"
        self._started = started

    def feed(self, start: int, stop: int) -> None:
        """Send these records."""
        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        for record in stream(3 * COUNT, seed=7)[start:stop]:
            headers = list(record.extra or [])
            at = record.time_ms or 1
            producer.produce(
                self.config.topics.examples, record.payload, record.named, 0, timestamp=at, headers=headers
            )
        assert producer.flush(DEADLINE_S) == 0

    def start(self) -> WorkerProcess:
        """A worker."""
        return self._started.enter_context(WorkerProcess(self.path, self._log, on_stop="leave"))

    def work(self) -> list[dict[str, Any]]:
        """Let a worker answer all there is, and stop it; what it has logged."""
        worker = self.start()
        worker.wait_for_event("live")
        worker.wait_until(self.outputs.complete(), "everything was published", pause_s=0.1)
        assert worker.terminate() == 0
        return worker.history()

    def end(self) -> tuple[int, str]:
        """Start a worker, which ends by itself; its exit code and last words."""
        worker = self.start()
        wait_until(lambda: not worker.running, lambda: f"an end:\n{worker.tail()}", END_S)
        return worker.process.returncode, worker.history()[-1]["error"]

    def repair(self, *options: str) -> str:
        """What the command shows, once the worker that has failed last is no member any more."""

        def shown() -> str:
            done = call_command("repair", "--config", self.path, *options)
            assert done.returncode == 0 or "expected no member of group" in done.stderr, done.stderr
            return done.stdout

        return wait_until(shown, "the group had no members", END_S, pause_s=0.5)

    @property
    def offset(self) -> TopicPartition:
        """What the group has committed, with its note."""
        place: TopicPartition = self._as_member(lambda member: member.committed([self._place()], timeout=DEADLINE_S)[0])
        return place

    @offset.setter
    def offset(self, place: TopicPartition) -> None:
        def committed() -> bool:
            try:
                self._as_member(lambda member: member.commit(offsets=[place], asynchronous=False))
            except KafkaException:  # a worker that has failed is a member until its session ends
                return False
            return True

        wait_until(committed, f"{place} was committed", pause_s=0.2)

    def _place(self) -> TopicPartition:
        return TopicPartition(self.config.topics.examples, 0)

    def _as_member(self, ask: Callable[[Consumer], Any]) -> Any:
        member = Consumer({"bootstrap.servers": self.kafka, "group.id": self.config.worker.group})
        try:
            return ask(member)
        finally:
            member.close()

    def delete_offsets(self) -> None:
        """As the broker does with those of a group that was idle for long."""
        client, group = AdminClient({"bootstrap.servers": self.kafka}), self.config.worker.group

        def deleted() -> bool:
            try:
                client.delete_consumer_groups([group])[group].result(DEADLINE_S)
            except KafkaException:  # its last member has just left
                return False
            return True

        wait_until(deleted, "the group was deleted", pause_s=0.2)

    def renew_models(self) -> None:
        """The topic is deleted and made anew, empty."""
        client, name = AdminClient({"bootstrap.servers": self.kafka}), self.config.topics.models
        client.delete_topics([name])[name].result(DEADLINE_S)
        wait_until(lambda: name not in client.list_topics(timeout=DEADLINE_S).topics, f"the end of {name}")
        create_topics(self.kafka, NewTopic(name, 1, 1, config=COMPACTED))


@pytest.fixture
def group(kafka: str, topic: TopicFactory, tmp_path: Path) -> Iterator[Group]:
    """Nothing of it is left behind."""
    with ExitStack() as started:
        yield Group(kafka, topic, tmp_path, started)


def test_what_is_lost_is_never_answered_twice(group: Group) -> None:
    """Older offsets are seen through; lost offsets and a lost snapshot end the start, each with its code."""
    group.feed(0, COUNT)
    group.work()
    older = group.offset
    group.feed(COUNT, 2 * COUNT)
    group.work()
    newer = group.offset
    assert older.offset < newer.offset

    # As when a lone broker died before it had decided the offsets, and after it had decided the answers.
    group.offset = older
    group.feed(2 * COUNT, 3 * COUNT)
    events = [event for event in group.work() if event["event"] == "offset_behind_answers"]
    assert [(event["offset"], event["answered"]) for event in events] == [(older.offset, newer.offset)]
    group.outputs.check()

    last = group.offset
    group.delete_offsets()
    code, error = group.end()
    assert code == ConfigurationError.exit_code
    assert f"expected an offset of {last.topic}-0 that group {group.config.worker.group} has committed" in error
    for command in ("verify", "inspect"):
        done = call_command(command, "--config", group.path)
        assert done.returncode == ConfigurationError.exit_code
        assert "group's offsets are lost" in done.stderr, "that nobody has published anything would be wrong"
    group.outputs.check(offsets=False)

    repaired = group.repair("--yes")
    assert "nothing" in repaired
    assert "committed, and read back" in repaired
    assert (group.offset.offset, group.offset.metadata) == (last.offset, last.metadata)
    group.renew_models()
    code, error = group.end()
    assert code == SnapshotError.exit_code
    assert f"{group.config.topics.models}-0: expected the snapshot in messages" in error
    group.outputs.check()


def test_a_foreign_commit_is_repaired(group: Group) -> None:
    """A plain consumer's commit ends the next start; `repair` shows what it finds, and rebuilds the note.

    A worker itself replaces lost answers, and a snapshot that is not whole.
    """
    group.feed(0, COUNT)
    group.work()
    good = group.offset
    group.feed(COUNT, 2 * COUNT)

    foreign = TopicPartition(good.topic, 0, 0)
    group.offset = foreign
    code, error = group.end()
    assert code == ConfigurationError.exit_code
    assert "something else commits in this group; stop it, and let `stream-apple repair` rebuild the note" in error
    checked = call_command("check", "--config", group.path)
    assert checked.returncode == ConfigurationError.exit_code
    assert "stream-apple repair" in checked.stdout

    shown = group.repair()
    assert "damaged" in shown
    assert "nothing was committed; with --yes" in shown
    assert not group.offset.metadata

    stranger = Consumer({"bootstrap.servers": group.kafka, "group.id": group.config.worker.group, "client.id": "odd"})
    stranger.subscribe([good.topic])
    wait_until(stranger.assignment, "the stranger's partition", meanwhile=lambda: stranger.poll(0.1))
    refused = call_command("repair", "--config", group.path, "--yes")
    checked = call_command("check", "--config", group.path)
    stranger.close()
    assert "which have a group.instance.id, found odd at /127.0.0.1" in checked.stdout
    assert refused.returncode == ConfigurationError.exit_code
    assert "expected no member of group" in refused.stderr
    assert "odd at /127.0.0.1" in refused.stderr
    group.offset = foreign

    assert "committed, and read back" in group.repair("--yes")
    mended = group.offset
    assert (mended.offset, mended.metadata) == (good.offset, good.metadata)
    assert "nothing is damaged" in group.repair()
    group.work()
    group.outputs.check()
    verified = call_command("verify", "--config", group.path)
    assert verified.returncode == 0, verified.stderr

    # As late requests leave it: an offset without answers, and a snapshot of which only the last message is committed.
    group.feed(2 * COUNT, 3 * COUNT)
    last = group.offset
    note = json.loads(last.metadata or "")
    at, _, manifest, digest = note["snapshot"]
    torn = json.dumps({**note, "snapshot": [at, manifest, manifest + 1, digest]})
    group.offset = TopicPartition(last.topic, 0, last.offset + COUNT, torn)
    events = {event["event"]: event for event in group.work()}
    assert events["offset_after_answers"]["offset"] == last.offset + COUNT
    assert (events["snapshot_replaced"]["reason"], events["snapshot_replaced"]["source"]) == ("missing", "snapshot")
    group.outputs.check()
    assert call_command("verify", "--config", group.path).returncode == 0
