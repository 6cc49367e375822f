"""Whose an output topic is: a second group on the first one's topics is told so, and never the first one."""

import uuid
from collections.abc import Mapping

import msgpack
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from support.records import FakeRecord, dead_letter_headers
from support.topics import TopicFactory, create_worker_topics
from support.waiting import DEADLINE_S

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.log_reader import CommittedReader
from stream_apple.app.startup import open_up
from stream_apple.app.topic_owner import check_output_topics, refuse_topics_of_others
from stream_apple.cli import main
from stream_apple.config import Config, load
from stream_apple.errors import ConfigurationError
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.log.ports import Header
from stream_apple.stream.model.dead_letters import Reject
from stream_apple.stream.positions.lineage import OffsetMetadata, Provenance

PARTITIONS = 2


class Group:
    """A group of the topics, what it has answered, and what it has committed."""

    def __init__(self, kafka: str, topics: dict[str, str], **settings: str) -> None:
        self.environ = {
            "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": kafka,
            "STREAM_APPLE_WORKER__GROUP": f"group-{uuid.uuid4().hex[:8]}",
            "STREAM_APPLE_HTTP__PORT": "0",
            **{f"STREAM_APPLE_TOPICS__{role.upper()}": name for role, name in topics.items()},
            **settings,
        }
        self._producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})

    @property
    def config(self) -> Config:
        """The configuration of all that environ says."""
        return load(None, self.environ)

    @property
    def name(self) -> str:
        """The group's."""
        return self.config.worker.group

    def model(self, partition: int) -> str:
        """The fingerprint of its model."""
        return Provenance.of(self.config).lineage(partition, 0).model

    def commit(self, offset: int, partition: int = 0) -> None:
        """As the worker does."""
        config = self.config
        note = OffsetMetadata(Provenance.of(config).lineage(partition, 0), None).to_text()
        member = Consumer({**config.kafka, "group.id": self.name})
        member.commit(offsets=[TopicPartition(config.topics.examples, partition, offset, note)], asynchronous=False)
        member.close()

    def answer(self, start: int, stop: int, partition: int = 0, examples: str = "") -> None:
        """Publish predictions for these examples."""
        config, model = self.config, self.model(partition)
        for offset in range(start, stop):
            told = {"prediction": 0.5, "label": None, "loss": None, "epoch": 1, "model": model}
            place = {"topic": examples or config.topics.examples, "partition": partition, "offset": offset}
            self._producer.produce(config.topics.predictions, msgpack.packb(told | place), partition=partition)
        assert self._producer.flush(DEADLINE_S) == 0

    def reject(self, offset: int, examples: str = "") -> None:
        """Publish a dead letter for this example."""
        config = self.config
        reject = Reject(FakeRecord(0, offset, b"?", 1), Reason.MALFORMED, "x")
        headers = dead_letter_headers(reject, examples or config.topics.examples, self.model(0))
        self.write(config.topics.dead_letters, b"?", 0, headers)

    def write(self, topic: str, value: bytes, partition: int = 0, headers: list[Header] | None = None) -> None:
        """Any message."""
        self._producer.produce(topic, value, partition=partition, headers=headers)
        assert self._producer.flush(DEADLINE_S) == 0

    def told(self, verdict: str) -> list[str]:
        """What `check` says with this verdict, and what `run` does: it refuses to start where there is a fault."""
        found = list(check_output_topics(self.config))
        faults = [f"{finding.subject}: {finding.text}" for finding in found if finding.verdict == "fault"]
        if faults:
            with pytest.raises(ConfigurationError) as caught:
                refuse_topics_of_others(self.config, Cluster(self.config.kafka))
            assert str(caught.value) == faults[0]
        else:
            refuse_topics_of_others(self.config, Cluster(self.config.kafka))
        return [f"{finding.subject}: {finding.text}" for finding in found if finding.verdict == verdict]


@pytest.fixture
def topics(topic: TopicFactory) -> dict[str, str]:
    """Section `topics` of the first group."""
    return create_worker_topics(topic, PARTITIONS)


@pytest.fixture
def first(kafka: str, topics: dict[str, str]) -> Group:
    """A group that has answered ten examples of each partition, and committed that."""
    group = Group(kafka, topics)
    for partition in range(PARTITIONS):
        group.answer(0, 10, partition)
        group.commit(10, partition)
    return group


@pytest.fixture
def second(kafka: str, topics: dict[str, str]) -> Group:
    """Another group, with another learner, on the topics of the first."""
    return Group(kafka, topics, STREAM_APPLE_LEARNER__BITS="12")


def test_a_second_group_is_refused(first: Group, second: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """By both commands, with the topic, the model, its group and the setting; before Kafka is joined or fenced."""
    (fault,) = second.told("fault")
    topics = first.config.topics
    assert fault.startswith(f"topics.predictions: expected a topic that group {second.name} alone writes answers to ")
    assert any(
        f"found an answer of model {first.model(number)} to {topics.examples}-{number}@" in fault
        for number in range(PARTITIONS)
    )
    assert f" of group {first.name}, while group {second.name} has no offset of {topics.examples} yet: " in fault
    assert "Set topics.predictions to another topic, this group's own; `stream-apple topics` makes it" in fault
    assert first.told("fault") == first.told("note") == []
    opening = open_up(second.config)
    with (
        opening.listener,
        pytest.raises(ConfigurationError, match=r"topics\.predictions: expected a topic that group "),
    ):
        opening.permission.result(DEADLINE_S)
    opening.kafka.close()
    for name, value in second.environ.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(main, ["check"])
    assert done.exit_code == ConfigurationError.exit_code
    assert fault in done.output


def test_a_group_of_the_same_settings_is_refused(kafka: str, topics: dict[str, str], first: Group) -> None:
    """Its models have the first group's fingerprints: only what a group has committed tells them apart."""
    twin = Group(kafka, topics)
    assert twin.model(0) == first.model(0)
    (fault,) = twin.told("fault")
    assert f" of group {first.name}, while group {twin.name} has no offset of " in fault


def test_a_worker_that_starts_beside_another_one_s_first_commit_is_not_refused(
    kafka: str, topics: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets are read, the other worker commits, the answers are read: offsets are asked for again."""
    group, begin = Group(kafka, topics), CommittedReader.begin

    def commit_first(reader: CommittedReader, starts: Mapping[tuple[str, int], int]) -> None:
        monkeypatch.setattr(CommittedReader, "begin", begin)
        group.commit(10)
        begin(reader, starts)

    group.answer(0, 10)
    assert len(group.told("fault")) == 1
    monkeypatch.setattr(CommittedReader, "begin", commit_first)
    refuse_topics_of_others(group.config, Cluster(group.config.kafka))
    assert CommittedReader.begin is begin


def test_a_group_that_moves_to_another_s_topic_is_refused(first: Group, second: Group, topic: TopicFactory) -> None:
    """Whatever it has committed, its answers are elsewhere."""
    used = second.environ["STREAM_APPLE_TOPICS__PREDICTIONS"]
    second.environ["STREAM_APPLE_TOPICS__PREDICTIONS"] = topic("own", PARTITIONS)
    second.answer(0, 20)
    second.commit(20)
    assert second.told("fault") == []
    second.environ["STREAM_APPLE_TOPICS__PREDICTIONS"] = used
    (fault,) = second.told("fault")
    assert f" of group {first.name}, and none of group {second.name}: " in fault
    assert first.told("fault") == []


def test_who_was_there_first_goes_on(first: Group, second: Group) -> None:
    """Another one's answers behind its own, however many, are a note for it and no reason to end."""
    second.answer(0, 1500)
    first.answer(10, 12, 1)
    assert first.told("fault") == []
    (note,) = first.told("note")
    assert note.startswith(f"topic {first.config.topics.predictions}: found an answer of model {second.model(0)} to ")
    first.environ["STREAM_APPLE_WORKER__ID"] = "worker-1"
    second.answer(0, 1500, 1)
    assert first.told("fault") == [], "its own lie more than a thousand offsets back in both partitions"
    assert len(first.told("note")) == 1


def test_a_group_that_nobody_knows(first: Group, second: Group, topic: TopicFactory) -> None:
    """It is gone, or not for this client to see, or it is this group, whose offsets are lost: the model is told."""
    used = topic("used", PARTITIONS)
    for group in (second, first):
        group.environ["STREAM_APPLE_TOPICS__PREDICTIONS"] = used
    second.answer(0, 3)
    for group, but in ((second, f"while group {second.name} has no"), (first, f"and none of group {first.name}: ")):
        found = group.told("fault")
        assert len(found) == 1
        assert f"found an answer of model {second.model(0)} to " in found[0]
        assert f" of another group, or of this one, if its offsets are lost, {but}" in found[0]


def test_answers_to_other_examples_are_no_matter(second: Group) -> None:
    """Readers tell them apart by the topic of the example; so do those of dead letters."""
    second.answer(0, 10, examples="others")
    second.reject(3, "others")
    second.write(second.config.topics.dead_letters, b"of another system")
    assert second.told("fault") == second.told("note") == []


def test_what_is_no_prediction_is_no_place_for_predictions(second: Group) -> None:
    """Somebody's examples, or dead letters: a worker would be drowned in predictions."""
    second.write(second.config.topics.predictions, msgpack.packb({"features": {"a": 1}}), 1)
    (fault,) = second.told("fault")
    place = f"{second.config.topics.predictions}-1@0"
    assert f"found a message that is no prediction at {place}, while group {second.name} has no offset" in fault


def test_dead_letters_of_another_group(first: Group, second: Group, topic: TopicFactory) -> None:
    """A new group's would be second ones. Who is at work may have shared the topic for years, and goes on."""
    first.reject(4)
    second.environ["STREAM_APPLE_TOPICS__PREDICTIONS"] = topic("own", PARTITIONS)
    (fault,) = second.told("fault")
    assert fault.startswith(f"topics.dead_letters: expected a topic that group {second.name} alone writes answers to ")
    assert f"of model {first.model(0)} to {first.config.topics.examples}-0@4" in fault
    second.commit(0)
    assert second.told("fault") == []


def test_predictions_among_the_dead_letters(first: Group, second: Group, topic: TopicFactory) -> None:
    """Of whichever examples: that topic is no place for dead letters."""
    second.environ["STREAM_APPLE_TOPICS__DEAD_LETTERS"] = first.config.topics.predictions
    second.environ["STREAM_APPLE_TOPICS__PREDICTIONS"] = topic("own", PARTITIONS)
    (fault,) = second.told("fault")
    assert fault.startswith("topics.dead_letters: ")


def test_models_of_several_groups_may_lie_in_one_topic(first: Group, second: Group) -> None:
    """Compaction keeps one message for each key, and the key names the group."""
    keys = [Provenance.of(group.config).snapshot_key(0, 0) for group in (first, second)]
    assert keys == [f"{group.name}/0/0".encode() for group in (first, second)]


def test_an_open_transaction_is_not_waited_for(kafka: str, first: Group, second: Group) -> None:
    """What is decided tells enough: a live group has a transaction open at any time."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": first.name})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(first.config.topics.predictions, b"undecided", partition=0)
    assert producer.flush(DEADLINE_S) == 0
    assert len(second.told("fault")) == 1
    assert first.told("fault") == []
    producer.abort_transaction(60)


def test_what_others_report_is_left_to_them(first: Group) -> None:
    """No cluster, no topic, offsets of other settings: one line about each is enough."""
    first.environ["STREAM_APPLE_LEARNER__BITS"] = "12"
    assert first.told("fault") == []
    del first.environ["STREAM_APPLE_LEARNER__BITS"]
    first.environ["STREAM_APPLE_TOPICS__PREDICTIONS"] = "not-there"
    assert first.told("fault") == []
    first.environ["STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS"] = "127.0.0.1:1"
    assert list(check_output_topics(first.config)) == []
